
-- Puts the counts of a queue right after all its jobs were counted, unless they have changed since that began.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the queue   4 to 10 its counts as they were, as COUNTS names them
--       11 how many jobs wait, are leased or dead   12 how many of them are dead   13 expired   14 the bytes of their payloads
-- ->    1; 0 if something has happened meanwhile

local q = queue_of(ARGV[3])
for i, count in ipairs(COUNTS) do
  if q[count] ~= tonumber(ARGV[3 + i]) then return 0 end
end
local missing = stored(q) - tonumber(ARGV[11])
-- What was accepted stays so: jobs that are not there any more somebody has deleted. Those that nobody counted were accepted.
if missing > 0 then q.deleted = q.deleted + missing else q.accepted = q.accepted - missing end
q.dead, q.expired, q.bytes = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
save()
redis.call('HSET', K_QUEUE .. q.name, 'accepted', q.accepted)
redis.call('ZADD', K_QUEUES, 0, q.name)
return 1
