
-- New jobs. `ids.newest` is the newest id, `ids.step` the number of shards: each id of a shard is so much higher than the one
-- before. However fast jobs come, and though the clock was set back, ids rise; then they run ahead of the clock.
local ids = {}

local function begin_ids()
  local meta = redis.call('HMGET', K_META, 'id', 'shards')
  local shard, first = tonumber(string.match(root, '{(%d+)}:$')), first_id(now)
  ids.step = tonumber(string.match(meta[2], '%d+$'))
  ids.newest = math.max(meta[1] and number_of(meta[1]) or shard, first - 1 - (first - 1 - shard) % ids.step)
end

-- So many ids that follow each other.
local function next_ids(count)
  if not ids.newest then begin_ids() end
  local many, pack, newest, step = {}, struct.pack, ids.newest, ids.step
  for i = 1, count do
    newest = newest + step
    many[i] = pack('>I8', newest)
  end
  ids.newest = newest
  return many
end

local function next_id()
  return next_ids(1)[1]
end

local function save_ids()
  if ids.newest then redis.call('HSET', K_META, 'id', struct.pack('>I8', ids.newest)) end
end

local NEW, EXISTING, REPLACED, RUN, DUPLICATE, CLOSED, FULL, TOO_MANY_BYTES = 0, 1, 2, 3, 10, 11, 12, 13
-- The queue is spread otherwise than the caller knows; nobody here has the key.
local ELSEWHERE, FREE = 14, 15
-- There are as many queues as there may be.
local CROWDED = 16
local REJECT, RETURN, REPLACE_IT = 1, 2, 3

-- What pushes have in common that stand in one run: queue:1+ priority:4 when:1 at:6 ttl:1 at:6 policy:1 key:2+ grouped:1
-- group:2+ count:4 bytes:6 (of all payloads) epoch:4 (how the caller knows the queue to be spread) held:1 (only to where the
-- key is held). `when` and `ttl` are 0 for none, 1 for a length of time, 2 for an instant.
local function run_of(head)
  local run = {}
  local grouped, held
  run.queue, run.priority, run.when, run.at, run.ttl, run.ends, run.policy, run.key, grouped, run.group, run.count,
    run.bytes, run.epoch, held = struct.unpack('>Bc0I4BI6BI6BI2c0BI2c0I4I6I4B', head)
  run.held = held == 1
  run.due = run.when == 0 and now or run.when == 2 and run.at or run.at == 0 and now or ceiling + run.at
  run.expires = run.ttl == 0 and 0 or run.ttl == 2 and math.max(run.ends, 1) or math.max(ceiling + run.ends, 1)
  if grouped == 0 then run.group = nil end
  if run.policy == 0 then run.key = nil end
  return run
end

local function size_of(spec)
  return #spec - struct.unpack('>I4', spec)
end


-- The job that holds a key now.
local function holder_of(queue, key)
  local id = redis.call('HGET', K_KEYS_OF .. queue, key)
  local record = id and redis.call('HGET', K_JOBS, id)
  if record then
    local job = open(id, record, redis.call('HGET', K_LIVES, id))
    if job.state ~= DONE or job.held > now then return job end
  end
end

local function answer(how, id, state, due)
  return struct.pack('>Bc8BI6', how, id, state, due)
end

local function due_shown(q, job)
  return job.state == WAITING and due_of(q, job) or job.due or job.created
end

-- Why a queue takes no more now: the answer, with the limit in the place of the id and the count in that of the time.
local function closed()
  return answer(CLOSED, NOBODY, 0, 0)
end

local function full(how, limit, count)
  return answer(how, struct.pack('>I8', limit), 0, count)
end

local function refusal(q, bytes)
  if crowded(q) then return answer(CROWDED, NOBODY, 0, 0) end
  if q.paused_in then return closed() end
  if q.max_jobs and stored(q) >= most(q, 'jobs') then return full(FULL, q.max_jobs, stored(q)) end
  if q.max_bytes and q.bytes + bytes > most(q, 'bytes') then return full(TOO_MANY_BYTES, q.max_bytes, q.bytes) end
end

local function duplicate(q, old)
  return answer(DUPLICATE, old.id, state_of(q, old), 0)
end

-- Why the job that has the key may not be replaced by this one.
local function no_replacing(q, old, size)
  if old.state ~= WAITING then return duplicate(q, old) end
  if q.paused_in then return closed() end
  if q.max_bytes and size > old.size and q.bytes - old.size + size > most(q, 'bytes') then
    return full(TOO_MANY_BYTES, q.max_bytes, q.bytes)
  end
end

-- scheduled, ready -> scheduled: payload, priority and times are new, the rest is the same job.
local function replace(q, old, run, spec)
  leave(q, old)
  local record = string.sub(old.record, 1, 6) .. struct.pack('>I6', run.expires) .. spec
  local job = open(old.id, record, pack(old))
  job.size = size_of(spec)
  job.front, job.due, job.progress = false, run.due, nil
  q.bytes = q.bytes - old.size + job.size
  remember(job, REPLACE, '', '')
  notice(q.name, job.id, REPLACE, '', '')
  redis.call('HSET', K_JOBS, job.id, record)
  keep(job)
  redis.call('ZREM', K_TIMERS, job.id)
  if run.expires > 0 then redis.call('ZADD', K_TIMERS, run.expires, job.id) end
  join(q, job)
  if run.expires > 0 and run.expires <= now then die(q, job, EXPIRE, EXPIRED, '', '') end
  return answer(REPLACED, job.id, state_of(q, job), job.due)
end

-- One job with all the rules. Says what came of it, and whether that is a refusal.
local function push_one(q, run, spec)
  local size = size_of(spec)
  local old = run.key and holder_of(run.queue, run.key)
  if run.held and not old then return answer(FREE, NOBODY, 0, 0), true end
  if old then
    if run.policy == RETURN then return answer(EXISTING, old.id, state_of(q, old), due_shown(q, old)), false end
    if run.policy == REJECT then return duplicate(q, old), true end
    local refused = no_replacing(q, old, size)
    if refused then return refused, true end
    return replace(q, old, run, spec), false
  end
  local refused = refusal(q, size)
  if refused then return refused, true end
  local id = next_id()
  local record = struct.pack('>I6I6', now, run.expires) .. spec
  redis.call('HSET', K_JOBS, id, record)
  if run.key then redis.call('HSET', K_KEYS_OF .. run.queue, run.key, id) end
  q.accepted = q.accepted + 1
  q.bytes = q.bytes + size
  notice(q.name, id, PUSH, '', '')
  local job = open(id, record)
  job.due = run.due
  join(q, job)
  if run.expires > 0 then
    if run.expires <= now then
      die(q, job, EXPIRE, EXPIRED, '', '')
    else
      redis.call('ZADD', K_TIMERS, run.expires, id)
    end
  end
  return answer(NEW, id, state_of(q, job), run.due), false
end
