
-- Of several processes that see to the same change of a queue, one decides which shard has which share of its limits.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the queue   4 the epoch of the change   5 the shares, packed
-- ->    the shares that hold; nothing if the change is over

local q = queue_of(ARGV[3])
if q.epoch ~= tonumber(ARGV[4]) or not q.changing then return '' end
redis.call('HSETNX', K_QUEUE .. q.name, 'decision', ARGV[5])
return redis.call('HGET', K_QUEUE .. q.name, 'decision')
