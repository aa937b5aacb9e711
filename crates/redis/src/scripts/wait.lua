
-- A process that was told of a queue, or waits for it, does so no more.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the process   then the queues that nobody in it waits for
-- ->    1

for i = 4, #ARGV do
  local q = queue_of(ARGV[i])
  local waited = redis.call('ZREM', K_WAITING .. q.name, ARGV[3]) == 1
  -- It was in use until now.
  if waited and not q.new and stored(q) == 0 then redis.call('ZADD', K_UNUSED, now, q.name) end
  -- What it was told of is for the next, and so is the alarm for what falls due; and room that was made for other shards.
  if waiting(q) > 0 or q.apart and q.max_leased then wake(q, 1) end
end
return 1
