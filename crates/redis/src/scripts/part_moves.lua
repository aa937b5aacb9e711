
-- The moves that several scripts make. Each leaves the job in exactly one place.

local function keep(job)
  redis.call('HSET', K_LIVES, job.id, pack(job))
end

local function erase(job)
  redis.call('HDEL', K_JOBS, job.id)
  redis.call('HDEL', K_LIVES, job.id)
  redis.call('ZREM', K_TIMERS, job.id)
  if job.key and redis.call('HGET', K_KEYS_OF .. job.queue, job.key) == job.id then
    redis.call('HDEL', K_KEYS_OF .. job.queue, job.key)
  end
end

-- Where a waiting job's due time is: in its line, or in its life if it stands at the front.
local function due_of(q, job)
  if not job.front then
    job.due = tonumber(redis.call('ZSCORE', line_of(q, job.priority), job.id)) or job.due or job.created
  end
  return job.due
end

-- The state by the number that record.rs knows it by.
local function state_of(q, job)
  if job.state == LEASED then return 2 end
  if job.state == DONE then return 3 end
  if job.state == DEAD then return 4 end
  return (job.front or due_of(q, job) <= now) and 1 or 0
end

-- scheduled, ready or leased -> dead
local function die(q, job, event, reason, by, note)
  if job.state == WAITING then
    due_of(q, job)
    leave(q, job)
  end
  redis.call('ZREM', K_TIMERS, job.id)
  job.state, job.reason, job.ended = DEAD, reason, now
  remember(job, event, by, note)
  notice(q.name, job.id, event, by, note)
  keep(job)
  redis.call('ZADD', K_DEAD .. q.name, now, job.id)
  if reason == EXPIRED then q.expired = q.expired + 1 else q.dead = q.dead + 1 end
end

-- Takes a dead job out of the dead.
local function undie(q, job)
  redis.call('ZREM', K_DEAD .. q.name, job.id)
  if job.reason == EXPIRED then q.expired = q.expired - 1 else q.dead = q.dead - 1 end
end

-- -> cancelled, and nothing is kept. What was done is counted as done for ever.
local function remove(q, job, event, by)
  job.removed, q.used = true, true
  if job.state == WAITING then leave(q, job) end
  if job.state == DEAD then undie(q, job) end
  notice(q.name, job.id, event, by, '')
  if job.state == DONE then
    redis.call('ZREM', K_DONE .. q.name, job.id)
  else
    q.bytes = q.bytes - job.size
    if event == CANCELLED then q.cancelled = q.cancelled + 1 else q.deleted = q.deleted + 1 end
  end
  erase(job)
end

-- What is left of a done job: all of it while it is kept, then only what holds its key, then nothing. Its timer rings when that
-- changes.
local function dwindle(job)
  if job.kept <= now then
    if job.held <= now then return erase(job) end
    -- Only the key is still held: nobody needs the payload.
    redis.call('HSET', K_JOBS, job.id, string.sub(job.record, 1, 12 + job.head))
    job.result = nil
  end
  keep(job)
  redis.call('ZADD', K_TIMERS, job.kept > now and job.kept or job.held, job.id)
end

-- leased or ready -> done, and kept for a while, or only its key, or nothing.
local function finish(q, job, event, by)
  notice(q.name, job.id, event, by, '')
  q.done = q.done + 1
  q.bytes = q.bytes - job.size
  if q.max_leased then wake(q, 1) end
  job.kept = now + job.retention
  job.held = job.key and now + job.window or now
  if job.kept <= now and job.held <= now then return erase(job) end
  remember(job, event, by, '')
  job.state, job.ended, job.worker = DONE, now, ''
  if job.kept > now then redis.call('ZADD', K_DONE .. q.name, now, job.id) end
  dwindle(job)
end

-- leased -> scheduled or ready, unless it was called off or its life is over. Without a new due time it goes back to its old
-- place. Without an event its timeline does not change.
local function back(q, job, event, due, by, note)
  if job.cancel then return remove(q, job, CANCELLED, by) end
  if job.expires > 0 and job.expires <= now then return die(q, job, EXPIRE, EXPIRED, by, note) end
  redis.call('ZREM', K_TIMERS, job.id)
  if job.expires > 0 then redis.call('ZADD', K_TIMERS, job.expires, job.id) end
  job.state = WAITING
  if due then job.due, job.front = due, false end
  if event == VANISH then job.front = true end
  if event then remember(job, event, by, note) end
  notice(q.name, job.id, event or RELEASE, by, note)
  keep(job)
  join(q, job)
end

-- Takes the newest moment off a timeline, if it is this one.
local function unremember(job, event, by, note)
  local rest = struct.pack('>Bc0I4c0', #by, by, #note, note)
  local size = 7 + #rest
  if string.sub(job.timeline, -#rest) == rest and string.byte(job.timeline, -size) == event then
    job.timeline, job.moments = string.sub(job.timeline, 1, -size - 1), job.moments - 1
  end
end

-- A lease that is shorter counts in any case, or a job whose lease is shorter than the way to Redis would be lent without end.
local FORGIVEN = 1000

-- A lease of which nobody was given the token does not count.
local function uncount(q, job)
  unremember(job, LEASE, job.worker, '')
  job.attempt = job.attempt - 1
  -- It cannot be taken back once more.
  job.counter, job.nonce = 0, NOBODY
  -- Where the queue is spread, its rate is kept elsewhere.
  if q.count and not q.apart then
    local left, filled = level(q)
    redis.call('HSET', K_QUEUE .. q.name, 'level', math.min(left + q.per, q.per * q.burst), 'at', filled)
  end
end

-- leased -> ready, as if it had never been lent, because nobody was given the token.
local function take_back(q, job)
  uncount(q, job)
  back(q, job, nil, nil, job.worker, '')
  if q.max_leased then wake(q, 1) end
end

-- leased -> dead, unless it was called off.
local function bury(q, job, event, reason, by, note)
  if job.cancel then return remove(q, job, CANCELLED, by) end
  die(q, job, event, reason, by, note)
end

local function vanished_note(job)
  return (job.worker == '' and 'its worker' or job.worker) .. ' did not settle it in time'
end

-- A lease that nobody settled in time.
local function vanish(q, job)
  if job.pending and job.length >= FORGIVEN then return take_back(q, job) end
  job.vanished = job.vanished + 1
  local note = vanished_note(job)
  if job.failures + job.vanished >= job.max then
    bury(q, job, EXHAUST, VANISHED, job.worker, note)
  else
    back(q, job, VANISH, nil, job.worker, note)
  end
  if q.max_leased then wake(q, 1) end
end

-- The last lease of a job vanished because nobody was given the token in time: that is not held against it. dead -> ready, if the
-- job died of it.
local function forgive(q, job)
  local dead = job.state == DEAD and job.reason == VANISHED
  if job.length < FORGIVEN or job.vanished == 0 or not (dead or job.state == WAITING) then return end
  unremember(job, dead and EXHAUST or VANISH, job.worker, vanished_note(job))
  uncount(q, job)
  job.vanished = job.vanished - 1
  if not dead then return keep(job) end
  undie(q, job)
  job.reason, job.ended, job.front = 0, 0, true
  back(q, job, nil, nil, job.worker, '')
end

-- What a script may spend on what it was asked for, in units of about a microsecond, before it leaves the rest for the next
-- call; parts.rs has the same number. And how much of what is overdue each script sees to before that.
local BUDGET, OVERDUE = 1500, 40

-- What so many bytes cost.
local function bytes_cost(count)
  return count / 500
end

-- How many bytes of records are read for that at most, and then one more.
local OVERDUE_BYTES = 300000

-- Lets happen whose time has come, up to a bound that keeps others from waiting; says whether that was all.
local function upkeep()
  local bytes = 0
  local ids = redis.call('ZRANGEBYSCORE', K_TIMERS, '-inf', now, 'LIMIT', 0, OVERDUE)
  -- A Redis without memory refuses what brings jobs in by its first change: that must be one that may need memory. This one
  -- changes nothing.
  if grows and #ids > 0 then redis.call('ZADD', KEYS[2], 'XX', 0, '') end
  for _, id in ipairs(ids) do
    local record = redis.call('HGET', K_JOBS, id)
    if not record then
      redis.call('ZREM', K_TIMERS, id)
    else
      if bytes > OVERDUE_BYTES then return false end
      bytes = bytes + #record
      local job = open(id, record, redis.call('HGET', K_LIVES, id))
      local q = queue_of(job.queue)
      if job.state == LEASED then
        vanish(q, job)
      elseif job.state == DONE then
        if job.kept <= now then redis.call('ZREM', K_DONE .. job.queue, id) end
        q.used = true
        dwindle(job)
      elseif job.state == WAITING and job.expires > 0 and job.expires <= now then
        die(q, job, EXPIRE, EXPIRED, '', '')
      else
        redis.call('ZREM', K_TIMERS, id)
      end
    end
  end
  return #ids < OVERDUE
end
