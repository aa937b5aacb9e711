
-- Changes the settings of a queue that is in one shard, and makes the queue if need be.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the queue   4 its settings, packed
-- ->    whether its groups must be gathered (1) or scattered (2) now, else 0; 3 if the queue is or was spread (see freeze); 4 if there are
--       as many queues as there may be

upkeep()
local q = queue_of(ARGV[3])
if q.spread then return 3 end
if crowded(q) then
  save()
  publish()
  return 4
end
local groups = set(q, ARGV[4])
save()
publish()
return groups
