
-- lease: ready -> leased; take: ready -> done, where the length of a lease is zero: of one job that is named
-- kick, before that: scheduled, dead -> ready
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the id   4 how:1 ttr:6 and the worker; how is 1 if the lease is as
--       long as ttr says, plus 2 if it is pending until it is confirmed, plus 4 if what holds the job back is respected
--       5 a random nonce of 8 bytes
-- ->    the time, and id, record and life of the job; no more than the time if it is not there, leased, done or expired; the time and
--       what holds it back (due, dead, paused, leases, rate) if that is respected

upkeep()

local how, ttr, at = struct.unpack('>BI6', ARGV[4])

-- What keeps the queue from handing out a job. Where it is spread, its rate is kept elsewhere: here nobody knows whether it allows one more.
local function hold(q, job)
  if job.state == DEAD then return 'dead' end
  if state_of(q, job) ~= 1 then return 'due' end
  if paused(q) or q.changing then return 'paused' end
  if q.max_leased and leased(q) >= most(q, 'leased') then return 'leases' end
  if q.count and (q.apart or level(q) < q.per) then return 'rate' end
end

local function lend_named(id)
  local record = redis.call('HGET', K_JOBS, id)
  local job = record and open(id, record, redis.call('HGET', K_LIVES, id))
  if not job or job.state == LEASED or job.state == DONE then return end
  if job.state == DEAD and job.reason == EXPIRED then return end
  -- What died of something else before its life was over starts again, as after a kick.
  if job.state == WAITING and job.expires > 0 and job.expires <= now then return end
  local q = queue_of(job.queue)
  local why = has(how, 4) and hold(q, job)
  if why then return { tostring(now), why } end
  if state_of(q, job) == 1 then leave(q, job) else lift(q, job, KICK, now) end
  local counter = tonumber(meta[3] or 0) + 1
  redis.call('HSET', K_META, 'leases', counter)
  local lease = lend(q, job, counter, ARGV[5], string.sub(ARGV[4], at), has(how, 1) and ttr or nil, has(how, 2))
  if job.state == LEASED then
    redis.call('HSET', K_LIVES, id, lease)
    redis.call('ZADD', K_TIMERS, job.deadline, id)
  end
  if q.fair then turned(q, job.priority, job) end
  -- Where the queue is spread its rate is kept elsewhere, and this one does not count.
  if q.count and not q.apart then
    local left, filled = level(q)
    redis.call('HSET', K_QUEUE .. q.name, 'level', math.max(left - q.per, 0), 'at', filled)
  end
  return { tostring(now), id, job.record, lease }
end

local answer = lend_named(ARGV[3]) or { tostring(now) }
save()
publish()
return answer
