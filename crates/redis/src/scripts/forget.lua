
-- Queues that have nothing and that no call uses are forgotten; their books are added to those of all forgotten queues.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 what to do, 'look', 'forget', 'keep' or 'list'
--       'look' finds queues that may go:   4 for how many milliseconds they must have been unused   5 how many at most
--       'forget' takes the queues that are named from 4 on, if nothing came into them since
--       'keep' notes that those named from 4 on are in use, by something that is not stored beside them
--       'list' notes those named from 4 on as possibly unused, if they are not noted yet
-- ->    for 'look', the names of some, those first that went unused the longest, and 1 if it has to be asked again; else how many
--       queues were forgotten

local HOUR = 3600000
local LOOKS = 200

-- Whether a queue may go. One that may not is noted as what it is.
local function is_unused(name, score)
  local q = queue_of(name)
  -- The last job, key or setting that goes notes it again.
  if q.new or stored(q) > 0 or redis.call('HLEN', K_KEYS_OF .. name) > 0 or redis.call('ZCARD', K_DONE .. name) > 0
    or q.paused_in or q.paused_out or q.fair or q.max_jobs or q.max_bytes or q.max_leased or q.count or q.spread then
    redis.call('ZREM', K_UNUSED, name)
    return false
  end
  if redis.call('EXISTS', K_WAITING .. name) == 1 or redis.call('EXISTS', K_NOTES .. name) == 1 then
    redis.call('ZADD', K_UNUSED, now, name)
    return false
  end
  if paused(q) then
    -- It may go when the pause is over.
    redis.call('ZADD', K_UNUSED, math.max(score, q.paused_until - HOUR), name)
    return false
  end
  return true
end

local function forget(name)
  local q = queue_of(name)
  for _, count in ipairs(COUNTS) do
    if q[count] > 0 then redis.call('HINCRBY', K_FORGOTTEN, count, q[count]) end
  end
  local fields, names = redis.call('HGETALL', K_QUEUE .. name), {}
  for i = 1, #fields, 2 do names[#names + 1] = fields[i] end
  redis.call('HDEL', K_QUEUE .. name, unpack(names))
  redis.call('ZREM', K_QUEUES, name)
  redis.call('ZREM', K_UNUSED, name)
end

local act = ARGV[3]
if act == 'look' then
  local found = {}
  local most = tonumber(ARGV[5])
  local seen = redis.call('ZRANGEBYSCORE', K_UNUSED, '-inf', now - ARGV[4], 'WITHSCORES', 'LIMIT', 0, LOOKS)
  for i = 1, #seen, 2 do
    if #found == most then break end
    if is_unused(seen[i], tonumber(seen[i + 1])) then found[#found + 1] = seen[i] end
  end
  return { found, #seen == LOOKS * 2 and 1 or 0 }
end
local forgotten = 0
for i = 4, #ARGV do
  local name = ARGV[i]
  local score = redis.call('ZSCORE', K_UNUSED, name)
  if act == 'keep' then
    redis.call('ZADD', K_UNUSED, now, name)
  elseif act == 'list' then
    redis.call('ZADD', K_UNUSED, 'NX', now, name)
  elseif score and is_unused(name, tonumber(score)) then
    forget(name)
    forgotten = forgotten + 1
  end
end
return forgotten
