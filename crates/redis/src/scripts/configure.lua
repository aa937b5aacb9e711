
-- Changes a queue's settings, and makes the queue if need be.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the queue   4 its settings, packed
-- ->    whether its groups must be gathered (1) or scattered (2) now, else 0

upkeep(100)
local q = queue_of(ARGV[3])
local old = { fair = q.fair, count = q.count, per = q.per, burst = q.burst }
q.paused_in, q.paused_out, q.fair, q.max_jobs, q.max_bytes, q.max_leased, q.count, q.per, q.burst = nil
settings(q, ARGV[4])
redis.call('HSET', K_QUEUE .. q.name, 'config', ARGV[4], 'accepted', q.accepted)
redis.call('ZADD', K_QUEUES, 0, q.name)
if old.count ~= q.count or old.per ~= q.per or old.burst ~= q.burst then
  redis.call('HDEL', K_QUEUE .. q.name, 'level', 'at')
end
wake(q, 1000)
save()
publish()
if q.fair and not old.fair then return 1 end
if old.fair and not q.fair then return 2 end
return 0
