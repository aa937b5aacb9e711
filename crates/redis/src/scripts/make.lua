
-- A new store is made, or one that there is found. It has an identity, so that who opened it notices when it is another one.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the number of shards of a new store   4 the identity of a new store; for all shards
--       but the first, that of the first   5 '1' for all shards but the first
-- ->    the number of shards that the store has, and its identity; for all shards but the first, what theirs was

if ARGV[5] == '1' then
  local was = redis.call('HGET', K_META, 'store')
  -- Each knows how many there are, should the first be lost.
  redis.call('HSET', K_META, 'store', ARGV[4], 'shards', ARGV[3])
  return was or ''
end
redis.call('HSETNX', K_META, 'shards', ARGV[3])
redis.call('HSETNX', K_META, 'store', ARGV[4])
return redis.call('HMGET', K_META, 'shards', 'store')
