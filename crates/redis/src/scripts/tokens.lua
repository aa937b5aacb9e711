
-- The rate of a queue that is spread is kept at its home: leases are paid for here before they are made elsewhere.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the queue   4 how many are wanted   5 how many were not needed
-- ->    how many there are for it, and when there is the next, 0 if there are more

local q = queue_of(ARGV[3])
if not q.count then return { 0, '0' } end
local left, filled = level(q)
left = math.min(left + ARGV[5] * q.per, q.per * q.burst)
local given = math.min(math.floor(left / q.per), tonumber(ARGV[4]))
left = left - given * q.per
redis.call('HSET', K_QUEUE .. q.name, 'level', left, 'at', filled)
return { given, tostring(left < q.per and filled + math.ceil((q.per - left) / q.count) or 0) }
