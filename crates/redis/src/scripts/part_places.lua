
-- Where a job must stand and where not, by what its life says. What finds a fault can mend it as well, so that the audit and the
-- repair cannot differ.

-- What is the same for all jobs of a queue that have the same priority is asked once. In most queues nobody is dead or kept.
local known = {}
local function around(job)
  local queue = known[job.queue]
  if not queue then
    local name = job.queue
    queue = { q = queue_of(name), dead_set = K_DEAD .. name, done_set = K_DONE .. name, lines = {} }
    queue.dead = redis.call('EXISTS', queue.dead_set) == 1
    queue.done = redis.call('EXISTS', queue.done_set) == 1
    queue.listed = redis.call('ZSCORE', K_QUEUES, name)
    known[name] = queue
  end
  local line = queue.lines[job.priority]
  if not line then
    line = { key = line_of(queue.q, job.priority), seen = redis.call('ZSCORE', K_CLASSES .. job.queue, job.priority) }
    queue.lines[job.priority] = line
  end
  return queue, line
end

-- The time at which something must happen to a job by itself.
local function timer_of(job)
  if job.state == LEASED then return job.deadline end
  if job.state == WAITING and job.expires > 0 then return job.expires end
  -- What comes after that is seen when it rings.
  if job.state == DONE then return job.kept end
end

local function good_timer(job, timer)
  if job.state == DONE then return timer == job.kept or timer == job.held end
  return timer == timer_of(job)
end

-- Whether the job that is said to have a key has it.
local function has_key(id, queue, key)
  local record = id and redis.call('HGET', K_JOBS, id)
  if not record then return false end
  local job = open(id, record, redis.call('HGET', K_LIVES, id))
  return job.queue == queue and job.key == key and (job.state ~= DONE or job.held > now)
end

-- What is wrong with a job that has this timer; and how much of it was mended, if that was to be.
local function check(job, timer, mend)
  local wrong, mended = {}, 0
  local queue, line = around(job)
  local id, name, q = job.id, job.queue, queue.q
  local waits = redis.call('ZSCORE', line.key, id)
  local dead = queue.dead and redis.call('ZSCORE', queue.dead_set, id)
  local done = queue.done and redis.call('ZSCORE', queue.done_set, id)
  timer = tonumber(timer)
  local function say(text, way)
    wrong[#wrong + 1] = text
    if mend and way() then mended = mended + 1 end
  end
  if job.state == WAITING and not waits then
    say('stands in no line', function()
      -- Of a job to which nothing has happened yet, only its line knew when it is due.
      job.due = job.due or job.created
      join(q, job)
      return true
    end)
  elseif job.state ~= WAITING and waits then
    say('stands in line', function()
      leave(q, job)
      return true
    end)
  elseif waits and not line.seen then
    say('stands in a line that nobody looks at', function()
      redis.call('ZADD', K_CLASSES .. name, job.priority, job.priority)
      wake(q, 1)
      return true
    end)
  end
  if q.fair and job.state == WAITING and waits then
    local group = group_id(job.group)
    if not redis.call('ZSCORE', group_line(q, job.priority, group), id)
      or not redis.call('ZSCORE', K_RING .. job.priority .. ':' .. name, group) then
      say('does not stand in its group', function()
        join_group(q, job.priority, group, waits, id)
        return true
      end)
    end
  end
  if not good_timer(job, timer) then
    local text = not timer and 'has no timer' or timer_of(job) and 'has the timer of another time' or 'has a timer'
    say(text, function()
      local at = timer_of(job)
      return at and redis.call('ZADD', K_TIMERS, at, id) or redis.call('ZREM', K_TIMERS, id)
    end)
  end
  if job.state == DEAD and not dead then
    say('is not among the dead', function() return redis.call('ZADD', queue.dead_set, job.ended, id) end)
  elseif job.state ~= DEAD and dead then
    say('is among the dead', function() return redis.call('ZREM', queue.dead_set, id) end)
  end
  if job.state == DONE and job.kept > now and not done then
    say('is not among the done', function() return redis.call('ZADD', queue.done_set, job.ended, id) end)
  elseif job.state ~= DONE and done then
    say('is among the done', function() return redis.call('ZREM', queue.done_set, id) end)
  end
  if job.key and (job.state ~= DONE or job.held > now) then
    local holder = redis.call('HGET', K_KEYS_OF .. name, job.key)
    if holder ~= id then
      say('does not have its key', function()
        -- Two jobs that live with one key are nothing that can be mended.
        return not has_key(holder, name, job.key) and redis.call('HSET', K_KEYS_OF .. name, job.key, id)
      end)
    end
  end
  if not queue.listed then
    say('is in a queue that is not listed', function() return redis.call('ZADD', K_QUEUES, 0, name) end)
  end
  if mended > 0 then known = {} end
  return wrong, mended
end

-- A set that has jobs, by what it is called.
local function place_of(kind, queue, class, group)
  local q = queue ~= '' and queue_of(queue)
  local key
  if kind == 'lives' then key = K_LIVES
  elseif kind == 'timers' then key = K_TIMERS
  elseif kind == 'dead' then key = K_DEAD .. queue
  elseif kind == 'done' then key = K_DONE .. queue
  elseif kind == 'keys' then key = K_KEYS_OF .. queue
  elseif kind == 'line' then key = line_of(q, class)
  elseif kind == 'ring' then key = K_RING .. class .. ':' .. queue
  else key = group_line(q, class, group) end
  return { kind = kind, key = key, q = q, queue = queue, class = class, group = group }
end

-- How large a record may be to be read for no more than to see whether its job is in the right place.
local SMALL = 4096
local STATES = { dead = DEAD, done = DONE, line = WAITING, group = WAITING }

-- Whether a member of a set has any business there. `holder` is the job that is said to have a key, if that is known. `alone` is a line that has no other beside it: a job that is of another
-- one is then missing there, which is found elsewhere, and its record need not be read.
local function belongs(place, member, alone, holder)
  local id = member
  if member == LAST then return true end
  if place.kind == 'ring' then return redis.call('EXISTS', group_line(place.q, place.class, member)) == 1 end
  if place.kind == 'keys' then id = holder or redis.call('HGET', place.key, member) end
  local size = id and redis.call('HSTRLEN', K_JOBS, id) or 0
  if size == 0 then return false end
  local wanted = STATES[place.kind]
  if wanted then
    local life = redis.call('HGET', K_LIVES, id)
    if (life and string.byte(life) or WAITING) ~= wanted then return false end
  end
  if place.queue == '' or wanted == DEAD or wanted == DONE or alone or size > SMALL then return true end
  local job = open(id, redis.call('HGET', K_JOBS, id))
  if job.queue ~= place.queue then return false end
  if place.kind == 'keys' then return job.key == member end
  if job.priority ~= tonumber(place.class) then return false end
  if place.kind == 'line' then return true end
  return group_id(job.group) == place.group and redis.call('ZSCORE', line_of(place.q, place.class), id)
end
