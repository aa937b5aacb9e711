
-- A schedule's tick: (nothing) -> scheduled or ready, at most once however many processes try
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the schedule's name   4 the schedule as it was read: last:6 and
--       more   5 as it shall be   6 its next tick, or nothing   7 '1' to drop what there is no room for here
--       then for each job: the tick, the head of a run of one, its spec
-- ->    the schedule as it is now; 0 if somebody else was first; 2 if a queue is just being spread otherwise; if a queue that is spread
--       has too little room here, and others of its shards may have some, 3 if it is room for jobs, 4 if for bytes; 5 if there are as
--       many queues as there may be

if redis.call('HGET', K_SCHEDULES, ARGV[3]) ~= ARGV[4] then return 0 end
local jobs, bytes = 0, 0
for i = 8, #ARGV, 3 do
  local run = run_of(ARGV[i + 1])
  local q = queue_of(run.queue)
  if q.changing then return 2 end
  if ARGV[7] ~= '1' and crowded(q) then return 5 end
  -- All are for the same queue.
  jobs, bytes = jobs + 1, bytes + run.bytes
  if q.apart and ARGV[7] ~= '1' and not (q.paused_in or run.key) then
    if q.max_jobs and stored(q) + jobs > most(q, 'jobs') then return 3 end
    if q.max_bytes and q.bytes + bytes > most(q, 'bytes') then return 4 end
  end
end
-- A Redis without memory takes no jobs (the first of these says so, and changes nothing), but the schedule must go on.
local full = type(redis.pcall('ZADD', KEYS[2], 'XX', 0, '')) == 'table'
redis.call('ZREM', KEYS[2], '')
upkeep()
local last = string.sub(ARGV[4], 1, 6)
for i = 8, #ARGV, 3 do
  local run = run_of(ARGV[i + 1])
  local q = queue_of(run.queue)
  -- A queue that takes no jobs now, or a key that is taken, drops the tick; and where the queue is spread, nobody here can know
  -- whether the key is.
  local _, dropped = nil, full or q.apart and run.key
  if not dropped then _, dropped = push_one(q, run, ARGV[i + 2]) end
  if not dropped then last = struct.pack('>I6', ARGV[i]) end
end
local ticked = last .. string.sub(ARGV[5], 7)
redis.call('HSET', K_SCHEDULES, ARGV[3], ticked)
if ARGV[6] == '' then
  redis.call('ZREM', K_TICKS, ARGV[3])
else
  redis.call('ZADD', K_TICKS, ARGV[6], ARGV[3])
end
redis.call('HSET', K_META, 'armed', now)
save_ids()
save()
publish()
return ticked
