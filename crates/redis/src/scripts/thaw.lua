
-- A change of a queue that is spread is complete in one of its shards.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the queue   4 the epoch of the change   5 its settings, packed
-- ->    whether its groups must be gathered (1) or scattered (2) now, else 0

upkeep()
local q = queue_of(ARGV[3])
local groups = 0
-- Who comes late must not undo what happened since.
if q.epoch == tonumber(ARGV[4]) and q.changing then
  groups = set(q, ARGV[5])
  redis.call('HDEL', K_QUEUE .. q.name, 'next', 'decision')
end
save()
publish()
return groups
