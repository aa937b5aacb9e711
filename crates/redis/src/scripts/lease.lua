
-- lease: ready -> leased; take: ready -> done, where the length of a lease is zero
--
-- KEYS  1 the root of the shard
-- ARGV  1 the time, in tests   2 whether the caller watches   3 the process that asks   4 '1' to lend though schedules are due
--       then for each ask: max:4 fixed:1 ttr:6 waits:1 queues:2, the worker, max random nonces of 8 bytes, the queues
-- ->    the time, the time at which to look again (0 for never), whether schedules are due (1) or must be armed anew (2), and for each ask a list: id,
--       record and life of each job; and the queues that there are not. Without an ask it only lets happen whose time
--       has come.

-- How many leases the queue allows now; and when it allows the next one, if that is a matter of time.
local function room(q, max)
  if q.paused_out then return 0 end
  if q.max_leased then
    local waiting = 0
    for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
      waiting = waiting + redis.call('ZCARD', line_of(q, class))
    end
    max = math.min(max, q.max_leased - (stored(q) - q.dead - q.expired - waiting))
  end
  if q.count then
    local kept = redis.call('HMGET', K_QUEUE .. q.name, 'level', 'at')
    local full = q.per * q.burst
    q.level = kept[1] and math.min(full, kept[1] + math.max(now - kept[2], 0) * q.count) or full
    max = math.min(max, math.floor(q.level / q.per))
  end
  return math.max(max, 0)
end

-- The first due jobs of a fair queue, in turns: of the most urgent priority first those whose worker vanished, then the
-- first job of the group whose last turn is longest ago. Of groups that never had one, the first in line.
local function turn(q, class)
  local line = line_of(q, class)
  local front = redis.call('ZRANGEBYSCORE', line, -1, -1, 'LIMIT', 0, 1)[1]
  if front then return front end
  local best, best_due, best_id
  local ring, from = K_RING .. class .. ':' .. q.name, 0
  while true do
    local groups = redis.call('ZRANGE', ring, from, from + 63, 'WITHSCORES')
    for i = 1, #groups, 2 do
      if best and groups[i + 1] ~= '0' then return best_id end
      local head = redis.call('ZRANGE', group_line(q, class, groups[i]), 0, 0, 'WITHSCORES')
      local due = tonumber(head[2] or now + 1)
      if due <= now and (not best or due < best_due or due == best_due and head[1] < best_id) then
        best, best_due, best_id = groups[i], due, head[1]
      end
    end
    from = from + 64
    if best then return best_id end
    -- While the groups of a queue that was just made fair are gathered, the line itself has the rest.
    if #groups < 128 then return redis.call('ZRANGEBYSCORE', line, '-inf', now, 'LIMIT', 0, 1)[1] end
  end
end

-- The next due jobs of a priority: ids and due times in turn.
local function chosen(q, class, most)
  if not q.fair then
    return redis.call('ZRANGEBYSCORE', line_of(q, class), '-inf', now, 'WITHSCORES', 'LIMIT', 0, most)
  end
  local id = turn(q, class)
  return id and { id, redis.call('ZSCORE', line_of(q, class), id) } or {}
end

local meta = redis.call('HMGET', K_META, 'leases', 'armed')
local counter = tonumber(meta[1] or 0)
local before = counter

-- A chosen job is lent.
local function lend(q, ask, job)
  counter = counter + 1
  job.counter, job.nonce = counter, string.sub(ask.nonces, ask.given * 8 + 1, ask.given * 8 + 8)
  ask.given = ask.given + 1
  job.attempt, job.worker = job.attempt + 1, ask.worker
  job.length = job.ttr == 0 and 0 or ask.ttr or job.ttr
  job.deadline = now + job.length
  if job.ttr == 0 then
    -- Delivered at most once: done before anybody has it.
    finish(q, job, TAKE, ask.worker)
    job.state = DONE
  else
    job.state = LEASED
    remember(job, LEASE, ask.worker, '')
    notice(q.name, job.id, LEASE, ask.worker, '')
  end
end

-- A group had its turn, and comes last in the ring if it has more.
local function turned(q, class, job)
  local group = group_id(job.group)
  local turns = redis.call('HINCRBY', K_QUEUE .. q.name, 'turn', 1)
  redis.call('HSET', K_TURNS .. q.name, group, turns)
  leave_group(q, class, group, job.id)
  redis.call('ZADD', K_RING .. class .. ':' .. q.name, 'XX', turns, group)
end

-- Lends the first due jobs of a priority; says how many.
local function serve_class(q, class, ask, most, lent)
  local given = 0
  while given < most do
    local next = chosen(q, class, math.min(most - given, 1000))
    if #next == 0 then return given end
    local ids = {}
    for i = 1, #next, 2 do ids[#ids + 1] = next[i] end
    local records = redis.call('HMGET', K_JOBS, unpack(ids))
    local lives = redis.call('HMGET', K_LIVES, unpack(ids))
    redis.call('ZREM', line_of(q, class), unpack(ids))
    local kept, timers = {}, {}
    for i, id in ipairs(ids) do
      local record = records[i]
      local job = record and open(id, record, lives[i])
      if job then
        -- Where a job stands at the front, only its life knows when it was due.
        if not job.front then job.due = tonumber(next[i * 2]) end
        if job.expires > 0 and job.expires <= now then
          if q.fair then leave_group(q, class, group_id(job.group), id) end
          -- It stands in no line any more.
          job.state = LEASED
          die(q, job, EXPIRE, EXPIRED, '', '')
        else
          lend(q, ask, job)
          given = given + 1
          local life, n = pack(job), #lent
          lent[n + 1], lent[n + 2], lent[n + 3] = id, record, life
          if job.state == LEASED then
            n = #kept
            kept[n + 1], kept[n + 2] = id, life
            timers[n + 1], timers[n + 2] = job.deadline, id
          end
          if q.fair then turned(q, class, job) end
        end
      end
    end
    if #kept > 0 then
      redis.call('HSET', K_LIVES, unpack(kept))
      redis.call('ZADD', K_TIMERS, unpack(timers))
    end
  end
  return given
end

-- Lends what a queue may lend to an ask.
local function serve(q, ask, lent)
  local left = room(q, ask.max)
  local given = 0
  if left == 0 then return end
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    given = given + serve_class(q, class, ask, left - given, lent)
    if redis.call('EXISTS', line_of(q, class)) == 0 then redis.call('ZREM', K_CLASSES .. q.name, class) end
    if given == left then break end
  end
  if q.count and given > 0 then
    q.level = q.level - given * q.per
    redis.call('HSET', K_QUEUE .. q.name, 'level', q.level, 'at', now)
  end
end

local again = 0
local function look_at(time)
  if time and (again == 0 or time < again) then again = time end
end

-- When there may be something for who found nothing.
local function look_again(q)
  if q.paused_out then return end
  local ready = false
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    local first = redis.call('ZRANGE', line_of(q, class), 0, 0, 'WITHSCORES')
    ready = ready or tonumber(first[2]) <= now
    look_at(tonumber(redis.call('ZRANGEBYSCORE', line_of(q, class), '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]))
  end
  if ready and q.count and q.level and q.level < q.per then
    look_at(now + math.ceil((q.per - q.level) / q.count))
  end
end

upkeep(100)
local process = ARGV[3]
local answers = {}
local asked = {}
local tick = tonumber(redis.call('ZRANGE', K_TICKS, 0, 0, 'WITHSCORES')[2])
-- Set back, the clock would silence the schedules until it has caught up: they must be armed anew.
local ticks = tick and (tonumber(meta[2] or 0) > now and 2 or tick <= now and 1) or 0
-- What a schedule is about to push may be more urgent than what is there: who asks is to see to it first.
local at = ticks > 0 and ARGV[4] ~= '1' and #ARGV + 1 or 5
while at <= #ARGV do
  local ask = { given = 0 }
  local fixed, waits, count
  ask.max, fixed, ask.ttr, waits, count = struct.unpack('>I4BI6BI2', ARGV[at])
  if fixed == 0 then ask.ttr = nil end
  ask.worker, ask.nonces = ARGV[at + 1], ARGV[at + 2]
  local lent = {}
  for i = at + 3, at + 2 + count do asked[ARGV[i]] = queue_of(ARGV[i]) end
  for i = at + 3, at + 2 + count do
    serve(asked[ARGV[i]], ask, lent)
    if #lent > 0 then break end
  end
  if #lent == 0 and waits == 1 then
    for i = at + 3, at + 2 + count do
      local q = queue_of(ARGV[i])
      look_again(q)
      redis.call('ZADD', K_WAITING .. q.name, 'NX', now, process)
    end
  end
  answers[#answers + 1] = lent
  at = at + 3 + count
end
if counter > before then redis.call('HSET', K_META, 'leases', counter) end
-- What is left is for the next who wait.
for _, q in pairs(asked) do
  if not q.paused_out and redis.call('EXISTS', K_WAITING .. q.name) == 1 then
    for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
      if redis.call('ZCOUNT', line_of(q, class), '-inf', now) > 0 and room(q, 1) > 0 then
        wake(q, 1)
        break
      end
    end
  end
end
look_at(tonumber(redis.call('ZRANGE', K_TIMERS, 0, 0, 'WITHSCORES')[2]))
look_at(tick)
save()
publish()
local missing = {}
for name, q in pairs(asked) do
  if q.new then missing[#missing + 1] = name end
end
return { tostring(now), tostring(again), ticks, answers, missing }
