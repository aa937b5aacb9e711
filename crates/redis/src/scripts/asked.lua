
-- Somebody asked for jobs of these queues. Of one that there never was nothing is kept.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   then the queues
-- ->    1

for i = 3, #ARGV do
  if redis.call('EXISTS', K_QUEUE .. ARGV[i]) == 1 then
    redis.call('HSET', K_QUEUE .. ARGV[i], 'asked', now)
    redis.call('ZADD', K_UNUSED, 'XX', now, ARGV[i])
  end
end
return 1
