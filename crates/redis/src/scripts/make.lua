
-- A new store is made, or one that there is found. It has an identity, so that who opened it notices when it is another one.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the layout and the number of shards of a new store, as in '2:16'   4 the identity of a
--       new store; for all shards but the first, that of the first   5 '1' for all shards but the first
-- ->    the layout and number of shards that the store has, and its identity; for all shards but the first, what theirs were. A shard
--       of another layout is left as it is

local function layout_of(shards) return string.match(shards, '^(%d+):') end

if ARGV[5] == '1' then
  local was = redis.call('HMGET', K_META, 'shards', 'store')
  -- Each knows how many there are, should the first be lost.
  if not was[1] or layout_of(was[1]) == layout_of(ARGV[3]) then
    redis.call('HSET', K_META, 'store', ARGV[4], 'shards', ARGV[3])
  end
  return was
end
redis.call('HSETNX', K_META, 'shards', ARGV[3])
redis.call('HSETNX', K_META, 'store', ARGV[4])
return redis.call('HMGET', K_META, 'shards', 'store')
