
-- A piece of the stored jobs, each with what is wrong with the places where it is found.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the cursor, '0' at first   4 about how many jobs
-- ->    the next cursor, '0' at the end; the names of the queues; for each job 16 bytes: id:8 queue:2 (which of the names)
--       state:1 reason:1 size:4; and the id and the problems of each job that has some

local scan = redis.call('HSCAN', K_JOBS, ARGV[3], 'COUNT', ARGV[4])
local ids, found = {}, {}
for i = 1, #scan[2], 2 do ids[#ids + 1] = scan[2][i] end
local lives, timers = {}, {}
if #ids > 0 then
  lives, timers = redis.call('HMGET', K_LIVES, unpack(ids)), redis.call('ZMSCORE', K_TIMERS, unpack(ids))
end
local jobs, names, numbers = {}, {}, {}
for i, id in ipairs(ids) do
  local job = open(id, scan[2][i * 2], lives[i])
  local number = numbers[job.queue]
  if not number then
    number = #names
    numbers[job.queue], names[number + 1] = number, job.queue
  end
  jobs[i] = struct.pack('>c8I2BBI4', id, number, job.state, job.reason, job.size)
  local wrong = check(job, timers[i], false)
  if #wrong > 0 then
    found[#found + 1] = id
    found[#found + 1] = 'in queue ' .. job.queue .. ' ' .. table.concat(wrong, ', ')
  end
end
return { scan[1], names, table.concat(jobs), found }
