
-- ack: leased -> done; fail: leased -> scheduled or dead; release, snooze: leased -> scheduled or ready; bury: leased -> dead
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices
--       then the ids of all jobs, and then for each lease counter:6 nonce:8 and, unless it is an ack without a result, outcome:1
--         1 ack      has_result:1 result
--         2 fail     has_delay:1 delay:6 never:1 dice:8 error
--         3 release  has_priority:1 priority:4 has_delay:1 delay:6
--         4 bury     has_priority:1 priority:4 has_error:1 error
--         5 snooze   delay:6
-- ->    for each lease 9 bytes: settled:1 state:1 has_due:1 due:6; for the first only if all would have taken too long

local LOST = struct.pack('>BBBI6', 0, 0, 0, 0)
local ACKED = struct.pack('>BBBI6', 1, 3, 0, 0)

-- How long a job waits after so many failures; retry.rs has the same rule.
local function wait_of(job, dice)
  local backoff = job.backoff
  local earlier = job.failures - 1
  local base, factor, cap, jitter = BACKOFF_BASE, BACKOFF_FACTOR, BACKOFF_CAP, BACKOFF_JITTER
  if backoff then
    local kind = string.byte(backoff)
    if kind == 1 then return (struct.unpack('>I6', backoff, 2)) end
    if kind == 2 then
      local count = (#backoff - 1) / 6
      return (struct.unpack('>I6', backoff, 2 + 6 * math.min(earlier, count - 1)))
    end
    base, factor, cap, jitter = struct.unpack('>I6dI6B', backoff, 2)
  end
  local full = math.min(base * factor ^ earlier, cap)
  -- To the nanosecond first, as the other engine reckons, then whole milliseconds.
  local function whole(ms) return math.floor(math.floor(ms * 1000000 + 0.5) / 1000000) end
  return jitter == 1 and whole(full * dice) or whole(full)
end

local function settled(q, job)
  local state = job.removed and 5 or job.state == DEAD and 4 or job.due <= now and 1 or (job.front and 1 or 0)
  local due = job.state == WAITING and not job.removed
  return struct.pack('>BBBI6', 1, state, due and 1 or 0, due and job.due or 0)
end

local function set_priority(job, priority)
  if priority == job.priority then return end
  job.priority = priority
  job.record = string.sub(job.record, 1, 16) .. struct.pack('>I4', priority) .. string.sub(job.record, 21)
  redis.call('HSET', K_JOBS, job.id, job.record)
end

-- Any end of a lease but an ack.
local function settle(job, outcome, item)
  local q = queue_of(job.queue)
  local by = job.worker
  if outcome == 2 then
    local has_delay, delay, never, dice, at = struct.unpack('>BI6Bd', item, 16)
    local error = string.sub(item, at)
    job.failures, job.error = job.failures + 1, error
    if never == 1 or job.failures + job.vanished >= job.max then
      bury(q, job, FAIL, FAILED, by, error)
    else
      local wait = has_delay == 1 and delay or wait_of(job, dice)
      back(q, job, RETRY, wait == 0 and now or ceiling + wait, by, error)
    end
  elseif outcome == 3 then
    local has_priority, priority, has_delay, delay = struct.unpack('>BI4BI6', item, 16)
    if has_priority == 1 then set_priority(job, priority) end
    back(q, job, RELEASE, has_delay == 1 and (delay == 0 and now or ceiling + delay) or nil, by, '')
  elseif outcome == 4 then
    local has_priority, priority, has_error, at = struct.unpack('>BI4B', item, 16)
    if has_priority == 1 then set_priority(job, priority) end
    local error = string.sub(item, at)
    if has_error == 1 then job.error = error end
    bury(q, job, BURY, BURIED, by, error)
  else
    local delay = struct.unpack('>I6', item, 16)
    back(q, job, SNOOZE, delay == 0 and now or ceiling + delay, by, '')
  end
  if q.max_leased then wake(q, 1) end
  return settled(q, job)
end

local all = upkeep()
-- Locals are registers here; a global or a field is looked up each time.
local args, byte, sub, find, some = ARGV, string.byte, string.sub, string.find, struct.unpack
local count = (#args - 2) / 2
local lives = count > 0 and redis.call('HMGET', K_LIVES, unpack(args, 3, math.min(count, 1000) + 2))
for from = 1001, count, 1000 do
  local found = redis.call('HMGET', K_LIVES, unpack(args, from + 2, math.min(from + 999, count) + 2))
  for i = 1, #found do lives[from + i - 1] = found[i] end
end
local answers, gone, over, ended, spent = {}, {}, {}, 0, 0
-- The size and the queue of the last one, as they stand in its life.
local last, size, q
local upto = 0

for i = 1, count do
  if spent >= BUDGET then break end
  spent = spent + 3
  local id, item, life = args[i + 2], args[i + count + 2], lives[i]
  local bare = #item == 14
  local state, flags
  -- In a life the counter and the nonce stand side by side, too. To find a string in its place costs a fraction of what it costs
  -- to cut out another one.
  if life and find(life, bare and item or sub(item, 1, 14), 21, true) == 21 then state, flags = byte(life, 1, 2) end
  -- Whether the lease is the one that the item names, and runs.
  if state ~= LEASED or over[id] or not all and some('>I6', life, 35) <= now then
    answers[i] = LOST
  else
    over[id] = true
    local outcome = bare and 1 or byte(item, 15)
    if outcome == 1 and flags < RICH then
      -- Nothing is kept of it: all such jobs go in three commands.
      if not last or find(life, last, 47, true) ~= 47 then
        local queue
        size, queue = some('>I4Bc0', life, 47)
        q, upto = queue_of(queue), 51 + #queue
        last = sub(life, 47, upto)
      end
      q.done, q.bytes = q.done + 1, q.bytes - size
      ended = ended + 1
      gone[ended] = id
      if watched then notice(q.name, id, ACK, some('>Bc0', life, upto + 1), '') end
      if q.max_leased then wake(q, 1) end
      answers[i] = ACKED
    else
      local record = redis.call('HGET', K_JOBS, id)
      local job = record and open(id, record, life)
      spent = spent + 27 + bytes_cost(#(record or '') + #life + #item)
      if not job then
        -- Somebody deleted it by hand; the ends of others are not to suffer.
        answers[i] = LOST
      elseif outcome == 1 then
        if byte(item, 16) == 1 then job.result = sub(item, 17) end
        finish(queue_of(job.queue), job, ACK, job.worker)
        answers[i] = ACKED
      else
        answers[i] = settle(job, outcome, item)
      end
    end
  end
end
for from = 1, ended, 1000 do
  local till = math.min(from + 999, ended)
  redis.call('HDEL', K_JOBS, unpack(gone, from, till))
  redis.call('HDEL', K_LIVES, unpack(gone, from, till))
  redis.call('ZREM', K_TIMERS, unpack(gone, from, till))
end
save()
publish()
return table.concat(answers)
