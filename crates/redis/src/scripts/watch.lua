
-- Somebody watches: for a while the scripts publish what happens.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 for how many milliseconds
-- ->    1

redis.call('HSET', K_META, 'watch', now + ARGV[3])
return 1
