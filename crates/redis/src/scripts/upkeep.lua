
-- Lets happen whose time has come, before something is read: leased -> ready or dead; scheduled, ready -> dead; done -> (nothing)
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices
-- ->    the time; when the next thing happens by itself, 0 for never; whether schedules are due (1) or must be armed anew (2)

upkeep()
local tick = tonumber(redis.call('ZRANGE', K_TICKS, 0, 0, 'WITHSCORES')[2])
local ticks = tick and (tonumber(meta[4] or 0) > now and 2 or tick <= now and 1) or 0
local timer = redis.call('ZRANGE', K_TIMERS, 0, 0, 'WITHSCORES')[2]
timer = timer and timer ~= 'inf' and tonumber(timer)
local again = timer and tick and math.min(timer, tick) or timer or tick or 0
save()
publish()
return { string.format('%.0f', now), string.format('%.0f', again), ticks }
