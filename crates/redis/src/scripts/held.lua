
-- A piece of the keys that a queue's jobs hold in a shard.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the queue   4 the cursor, '0' at first   5 about how many
-- ->    the next cursor, '0' at the end, and the keys

local scan = redis.call('HSCAN', K_KEYS_OF .. ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local keys = {}
for i = 1, #scan[2], 2 do keys[#keys + 1] = scan[2][i] end
return { scan[1], keys }
