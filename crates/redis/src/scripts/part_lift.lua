
-- Takes a job that waits or is dead out of where it is, to be due at another time. A dead one starts again as if it had never
-- failed. It is in no line yet.
local function lift(q, job, event, due)
  if job.state == DEAD then
    undie(q, job)
    if job.reason == EXPIRED or job.expires > 0 and job.expires <= now then
      job.expires = 0
      job.record = string.sub(job.record, 1, 6) .. struct.pack('>I6', 0) .. string.sub(job.record, 13)
      redis.call('HSET', K_JOBS, job.id, job.record)
    end
    if job.expires > 0 then redis.call('ZADD', K_TIMERS, job.expires, job.id) end
    job.failures, job.vanished, job.reason, job.ended, job.state = 0, 0, 0, 0, WAITING
  else
    leave(q, job)
  end
  job.due, job.front = due, false
  remember(job, event, '', '')
  notice(q.name, job.id, event, '', '')
end
