
-- What is set up besides queues.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 'all', or what to do:
--       'subscribe' name value | 'unsubscribe' name | 'schedule' or 'go_on' name value next | 'unschedule' name [last] | 'arm'
-- ->    the two hashes for 'all', 1 for 'arm', else whether anything was changed, 2 if the last tick was another one; and what there
--       was before

local act, name = ARGV[3], ARGV[4]
if act == 'subscribe' then
  local old = redis.call('HGET', K_SUBSCRIPTIONS, name)
  redis.call('HSET', K_SUBSCRIPTIONS, name, ARGV[5])
  return { 1, old or '' }
elseif act == 'unsubscribe' then
  local old = redis.call('HGET', K_SUBSCRIPTIONS, name)
  return { redis.call('HDEL', K_SUBSCRIPTIONS, name), old or '' }
elseif act == 'schedule' or act == 'go_on' then
  -- One that goes on has a last tick of its own.
  local old = redis.call('HGET', K_SCHEDULES, name)
  local last = string.sub(act == 'schedule' and old or ARGV[5], 1, 6)
  redis.call('HSET', K_SCHEDULES, name, last .. string.sub(ARGV[5], 7))
  redis.call('HSET', K_META, 'armed', now)
  if ARGV[6] == '' then redis.call('ZREM', K_TICKS, name) else redis.call('ZADD', K_TICKS, ARGV[6], name) end
  return { 1, old or '' }
elseif act == 'arm' then
  redis.call('HSET', K_META, 'armed', now)
  return 1
elseif act == 'unschedule' then
  local old = redis.call('HGET', K_SCHEDULES, name)
  if old and ARGV[5] and string.sub(old, 1, 6) ~= ARGV[5] then return { 2, '' } end
  redis.call('ZREM', K_TICKS, name)
  return { redis.call('HDEL', K_SCHEDULES, name), old or '' }
end
return { redis.call('HGETALL', K_SUBSCRIPTIONS), redis.call('HGETALL', K_SCHEDULES) }
