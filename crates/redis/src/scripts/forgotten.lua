
-- The books of all forgotten queues of a shard.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store
-- ->    accepted, done, cancelled, deleted

local books = {}
for i, count in ipairs(redis.call('HMGET', K_FORGOTTEN, 'accepted', 'done', 'cancelled', 'deleted')) do
  books[i] = count or '0'
end
return books
