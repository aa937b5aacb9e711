
-- How a queue is spread, as one of its shards knows it, and what it has there.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the queue
-- ->    its settings, packed; while it changes, what they are to be; and how many jobs it has stored here, how many bytes, how many
--       are leased, how many are kept or hold a key

local q = queue_of(ARGV[3])
local kept = redis.call('HMGET', K_QUEUE .. q.name, 'config', 'next')
return { kept[1] or '', kept[2] or '', tostring(stored(q)), tostring(q.bytes), tostring(leased(q)),
  redis.call('ZCARD', K_DONE .. q.name) + redis.call('HLEN', K_KEYS_OF .. q.name) }
