
-- A schedule's tick: (nothing) -> scheduled or ready, at most once however many processes try
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the schedule's name   4 the schedule as it was read: last:6 and
--       more   5 as it shall be   6 its next tick, or nothing   then for each job: the tick, the head of a run of one, its spec
-- ->    1; 0 if somebody else was first; 2 if a queue is just being spread otherwise

if redis.call('HGET', K_SCHEDULES, ARGV[3]) ~= ARGV[4] then return 0 end
for i = 7, #ARGV, 3 do
  if queue_of(run_of(ARGV[i + 1]).queue).changing then return 2 end
end
-- A Redis without memory takes no jobs (the first of these says so, and changes nothing), but the schedule must go on.
local full = type(redis.pcall('ZADD', KEYS[2], 'XX', 0, '')) == 'table'
redis.call('ZREM', KEYS[2], '')
upkeep(100)
local last = string.sub(ARGV[4], 1, 6)
for i = 7, #ARGV, 3 do
  local run = run_of(ARGV[i + 1])
  local q = queue_of(run.queue)
  -- A queue that takes no jobs now, or a key that is taken, drops the tick; and where the queue is spread, nobody here can know
  -- whether the key is.
  local _, dropped = nil, full or q.apart and run.key
  if not dropped then _, dropped = push_one(q, run, ARGV[i + 2]) end
  if not dropped then last = struct.pack('>I6', ARGV[i]) end
end
redis.call('HSET', K_SCHEDULES, ARGV[3], last .. string.sub(ARGV[5], 7))
if ARGV[6] == '' then
  redis.call('ZREM', K_TICKS, ARGV[3])
else
  redis.call('ZADD', K_TICKS, ARGV[6], ARGV[3])
end
redis.call('HSET', K_META, 'armed', now)
save_ids()
save()
publish()
return 1
