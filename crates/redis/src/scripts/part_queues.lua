
-- Queues: their settings and counts are read once and written once, in `save`.
local queues = {}
local COUNTS = { 'accepted', 'done', 'dead', 'expired', 'cancelled', 'deleted', 'bytes' }

-- The settings of a queue, packed: flags:1 [8: max_jobs:8] [16: max_bytes:8] [32: max_leased:4] [64: count:4 per:6 burst:4]
-- and, once it was spread over several shards, [128: epoch:4 changing:1 count:2 low:2 reach:2 extent:2, and the shares of this
-- shard in max_jobs:8, max_bytes:8 and max_leased:8]; spread.rs says what these are. Behind all of it, if there is more, until
-- when it is paused:6.
local SPREAD = '>I4BI2I2I2I2'
local SHARES = '>I8I8I8'

local function settings(q, config)
  local flags, at = struct.unpack('>B', config)
  q.paused_in, q.paused_out, q.fair = has(flags, 1), has(flags, 2), has(flags, 4)
  if has(flags, 8) then q.max_jobs, at = struct.unpack('>I8', config, at) end
  if has(flags, 16) then q.max_bytes, at = struct.unpack('>I8', config, at) end
  if has(flags, 32) then q.max_leased, at = struct.unpack('>I4', config, at) end
  if has(flags, 64) then q.count, q.per, q.burst, at = struct.unpack('>I4I6I4', config, at) end
  if has(flags, 128) then
    q.spread = at
    local changing, _
    q.epoch, changing, _, _, q.reach = struct.unpack(SPREAD, config, at)
    q.changing = changing == 1
    q.apart = q.reach > 1
    q.share_jobs, q.share_bytes, q.share_leased = struct.unpack(SHARES, config, at + 13)
    q.config, at = config, at + 13 + 24
  end
  q.tail = at
  if at <= #config then q.paused_until = struct.unpack('>I6', config, at) end
end

-- Whether it hands out nothing, for now or until somebody says otherwise.
local function paused(q)
  return q.paused_out or q.paused_until and q.paused_until > now
end

-- How much of a limit this shard has: all of it, or its share.
local function most(q, what)
  if q.apart then return q['max_' .. what] and q['share_' .. what] end
  return q['max_' .. what]
end

local function queue_of(name)
  local q = queues[name]
  if q then return q end
  local kept = redis.call('HMGET', K_QUEUE .. name, 'clock', 'config', unpack(COUNTS))
  -- Its clock is the process that has an alarm for the job that falls due next, if any has.
  q = { name = name, new = not kept[3], was = {}, epoch = 0, clock = kept[1] }
  for i, count in ipairs(COUNTS) do
    local value = tonumber(kept[i + 2] or 0)
    q[count], q.was[count] = value, value
  end
  if kept[2] then settings(q, kept[2]) end
  queues[name] = q
  return q
end

-- Jobs that wait, are leased or dead.
local function stored(q)
  return q.accepted - q.done - q.cancelled - q.deleted
end

-- How many queues a shard may have, unless its K_META says otherwise.
local MOST_QUEUES = 100000
local made = 0

-- Whether a queue is new, and there are as many as there may be. One that is not has its place.
local function crowded(q)
  if not q.new or q.placed then return false end
  local most = tonumber(redis.call('HGET', K_META, 'queues') or MOST_QUEUES)
  if redis.call('ZCARD', K_QUEUES) + made >= most then return true end
  q.placed, made = true, made + 1
  return false
end

local function save()
  for name, q in pairs(queues) do
    local changed = {}
    for _, count in ipairs(COUNTS) do
      if q[count] ~= q.was[count] then
        changed[#changed + 1] = count
        changed[#changed + 1] = q[count]
      end
    end
    if #changed > 0 then
      redis.call('HSET', K_QUEUE .. name, unpack(changed))
      if q.new then redis.call('ZADD', K_QUEUES, 0, name) end
    end
    -- One without jobs may be forgotten an hour from now.
    if (#changed > 0 or q.used and not q.new) and stored(q) == 0 then redis.call('ZADD', K_UNUSED, now, name) end
  end
end

local function line_of(q, priority)
  return K_LINE .. priority .. ':' .. q.name
end

-- How many jobs of a queue wait, and how many are leased.
local function waiting(q)
  local all = 0
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    all = all + redis.call('ZCARD', line_of(q, class))
  end
  return all
end

local function leased(q)
  return stored(q) - q.dead - q.expired - waiting(q)
end

-- What a rate's bucket holds now, and the bucket's time: a clock that went back fills nothing twice, and stops the queue for a
-- second at most. bucket.rs has the same rule.
local function level(q)
  local kept = redis.call('HMGET', K_QUEUE .. q.name, 'level', 'at')
  local full = q.per * q.burst
  if not kept[1] then return full, now end
  local at = math.min(tonumber(kept[2]), now + 1000)
  return math.min(full, kept[1] + math.max(now - at, 0) * q.count), math.max(at, now)
end

-- Tells up to `count` of the processes that wait for a queue. Each is told once, and comes back to the line when it has
-- looked and still waits.
local function wake(q, count)
  local waiting = redis.call('ZRANGE', K_WAITING .. q.name, 0, count - 1)
  for _, process in ipairs(waiting) do
    redis.call('ZREM', K_WAITING .. q.name, process)
    redis.call('RPUSH', K_SIGNALS .. process, q.name)
    redis.call('PEXPIRE', K_SIGNALS .. process, 60000)
  end
end

-- Whether a queue has a job that could be lent now, but for its limits.
local function has_due(q)
  if paused(q) then return false end
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    if redis.call('ZCOUNT', line_of(q, class), '-inf', now) > 0 then return true end
  end
  return false
end

-- Groups of a fair queue. The line stays the whole truth; beside it each group has a line of its own, and the ring has the
-- groups of a priority by their last turn, or by when they came if they had none yet.
local function group_id(group)
  return group and '+' .. group or '-'
end

local function group_line(q, priority, group)
  return K_GROUP .. priority .. ':' .. #group .. ':' .. group .. ':' .. q.name
end

local function join_group(q, priority, group, score, id)
  local ring = K_RING .. priority .. ':' .. q.name
  redis.call('ZADD', group_line(q, priority, group), score, id)
  -- One that comes, or comes again, is the last in the ring: nothing need be kept of those that are gone.
  if not redis.call('ZSCORE', ring, group) then
    redis.call('ZADD', ring, redis.call('HINCRBY', K_QUEUE .. q.name, 'turn', 1), group)
  end
end

local function leave_group(q, priority, group, id)
  local line = group_line(q, priority, group)
  redis.call('ZREM', line, id)
  if redis.call('EXISTS', line) == 0 then
    redis.call('ZREM', K_RING .. priority .. ':' .. q.name, group)
  end
end

-- A job stands in its line by its due time; one whose worker vanished before all others.
local function join(q, job)
  local score = job.front and -1 or job.due
  redis.call('ZADD', line_of(q, job.priority), score, job.id)
  redis.call('ZADD', K_CLASSES .. q.name, job.priority, job.priority)
  if q.fair then join_group(q, job.priority, group_id(job.group), score, job.id) end
  if job.front or job.due <= now then
    wake(q, 1)
  elseif redis.call('ZRANGE', line_of(q, job.priority), 0, 0)[1] == job.id then
    -- Due before all others: who waits must set the alarm anew.
    wake(q, 1)
  end
end

local function leave(q, job)
  redis.call('ZREM', line_of(q, job.priority), job.id)
  if redis.call('EXISTS', line_of(q, job.priority)) == 0 then
    redis.call('ZREM', K_CLASSES .. q.name, job.priority)
  end
  if q.fair then leave_group(q, job.priority, group_id(job.group), job.id) end
end
