
-- What is set up besides queues.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 'all', or what to do:
--       'subscribe' name value | 'unsubscribe' name | 'schedule' or 'go_on' name value next | 'unschedule' name [last] | 'arm'
-- ->    the two hashes for 'all', else whether anything was changed; 2 if the last tick was another one

local act, name = ARGV[3], ARGV[4]
if act == 'subscribe' then
  redis.call('HSET', K_SUBSCRIPTIONS, name, ARGV[5])
  return 1
elseif act == 'unsubscribe' then
  return redis.call('HDEL', K_SUBSCRIPTIONS, name)
elseif act == 'schedule' or act == 'go_on' then
  -- One that goes on has a last tick of its own.
  local old = act == 'schedule' and redis.call('HGET', K_SCHEDULES, name)
  local last = string.sub(old or ARGV[5], 1, 6)
  redis.call('HSET', K_SCHEDULES, name, last .. string.sub(ARGV[5], 7))
  redis.call('HSET', K_META, 'armed', now)
  if ARGV[6] == '' then redis.call('ZREM', K_TICKS, name) else redis.call('ZADD', K_TICKS, ARGV[6], name) end
  return 1
elseif act == 'arm' then
  redis.call('HSET', K_META, 'armed', now)
  return 1
elseif act == 'unschedule' then
  local old = ARGV[5] and redis.call('HGET', K_SCHEDULES, name)
  if old and string.sub(old, 1, 6) ~= ARGV[5] then return 2 end
  redis.call('ZREM', K_TICKS, name)
  return redis.call('HDEL', K_SCHEDULES, name)
end
return { redis.call('HGETALL', K_SUBSCRIPTIONS), redis.call('HGETALL', K_SCHEDULES) }
