
-- A new store is made, or one that there is found.
--
-- KEYS  1 the root of the first shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the number of shards of a new store
-- ->    the number of shards that it has

redis.call('HSETNX', K_META, 'shards', ARGV[3])
return redis.call('HGET', K_META, 'shards')
