
-- A queue that is spread has a share of each of its limits in each of its shards; what one does not use it gives to another.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the queue   4 the epoch   5 of which limit: jobs, bytes, leased
--       6 how much to give away at most   7 how much to take
-- ->    how much was given, the share that is left, how much of it is used, the limit, and whether something that was given may
--       still be under way; nothing in another epoch, in which all shares are dealt anew

local q = queue_of(ARGV[3])
if q.epoch ~= tonumber(ARGV[4]) or q.changing or not q['max_' .. ARGV[5]] then return {} end
local used = ARGV[5] == 'jobs' and stored(q) or ARGV[5] == 'bytes' and q.bytes or leased(q)
local share = 'share_' .. ARGV[5]
local given = math.max(math.min(q[share] - used, tonumber(ARGV[6])), 0)
q[share] = q[share] - given + tonumber(ARGV[7])
local config = string.sub(q.config, 1, q.spread + 12) .. struct.pack(SHARES, q.share_jobs, q.share_bytes, q.share_leased)
  .. string.sub(q.config, q.tail)
redis.call('HSET', K_QUEUE .. q.name, 'config', config)
local underway = 'underway_' .. ARGV[5]
if given > 0 then redis.call('HSET', K_QUEUE .. q.name, underway, now + 1000) end
local until_when = tonumber(redis.call('HGET', K_QUEUE .. q.name, underway) or 0)
local function whole(number) return string.format('%.0f', number) end
return { whole(given), whole(q[share]), whole(used), whole(q['max_' .. ARGV[5]]), until_when > now and 1 or 0 }
