
-- extend: a leased job stays leased, for longer
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices
--       then for each lease id:8 counter:6 nonce:8 has_ttr:1 ttr:6 has_progress:1 progress
-- ->    for each lease 8 bytes: extended:1 cancel:1 deadline:6

upkeep()
local answers = {}
for i = 3, #ARGV do
  local id, counter, nonce, has_ttr, ttr, has_progress, at = struct.unpack('>c8I6c8BI6B', ARGV[i])
  local record, life = redis.call('HGET', K_JOBS, id), redis.call('HGET', K_LIVES, id)
  local job = record and life and open(id, record, life)
  if job and job.state == LEASED and job.counter == counter and job.nonce == nonce and job.deadline > now then
    if has_ttr == 1 then job.length = ttr end
    if has_progress == 1 then job.progress = string.sub(ARGV[i], at) end
    job.deadline = now + job.length
    keep(job)
    redis.call('ZADD', K_TIMERS, job.deadline, id)
    answers[#answers + 1] = struct.pack('>BBI6', 1, job.cancel and 1 or 0, job.deadline)
  else
    answers[#answers + 1] = struct.pack('>BBI6', 0, 0, 0)
  end
end
save()
publish()
return table.concat(answers)
