
-- A queue is about to be spread otherwise, or a setting of a queue that is spread to change: until that is complete in all its
-- shards it takes no jobs and lends none here. What is leased can be settled.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the queue   4 the epoch that begins
--       5 at the queue's home, its settings to be; elsewhere nothing   6 at home, the epoch that ends
-- ->    1; 0 if a change has come in between

local q = queue_of(ARGV[3])
local epoch = tonumber(ARGV[4])
if ARGV[5] ~= '' and (q.changing or q.epoch ~= tonumber(ARGV[6])) then return 0 end
-- Elsewhere somebody else may have brought it here before, and may even be through with it.
if ARGV[5] == '' and q.epoch >= epoch then return 1 end
local config = q.config
if not config then
  local before = redis.call('HGET', K_QUEUE .. q.name, 'config') or '\0'
  q.spread = q.tail or 2
  config = struct.pack('>B', string.byte(before) + 128) .. string.sub(before, 2, q.spread - 1)
    .. struct.pack(SPREAD, 0, 0, 1, 1, 1, 1) .. struct.pack(SHARES, 0, 0, 0) .. string.sub(before, q.spread)
end
config = string.sub(config, 1, q.spread - 1) .. struct.pack('>I4B', epoch, 1) .. string.sub(config, q.spread + 5)
redis.call('HSET', K_QUEUE .. q.name, 'config', config, 'accepted', q.accepted)
redis.call('ZADD', K_QUEUES, 0, q.name)
if ARGV[5] ~= '' then
  redis.call('HDEL', K_QUEUE .. q.name, 'decision')
  redis.call('HSET', K_QUEUE .. q.name, 'next', ARGV[5])
end
return 1
