
-- Jobs of another store: (nothing) -> scheduled, ready, dead, done, in one step with the note that they are here
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the queue   4 the other store
--       5 what to do: 'look' only says how the move from there stands, 'begin' makes this run the only one to take jobs from,
--       'jobs' takes some, 'more' takes others of the same call, 'end' forgets the move; 'leave' lets jobs go there and to no other store, 'stay' to none
--       6 the run, 8 bytes
--       then for each job its id at the source and its version there (16 bytes), the id again if it names this shard and else zeros,
--       its record, its life or nothing, and its due time
-- ->    0, 1 if another run has begun since, 2 if jobs go to another store, 3 if the queue is spread; the note, if there is one;
--       the store that jobs go to, if there is one; and for each job 10 bytes: how:1 id:8 state:1

local DAY = 86400000
local notes, store, act, run = K_NOTES .. ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- No store has no name.
local GOING_TO = ''
local note, leaving = redis.call('HGET', notes, store), redis.call('HGET', notes, GOING_TO)

local function stands(refused, answers)
  return { refused, note or '', leaving or '', answers or '' }
end

if leaving and (act == 'begin' or act == 'jobs' or act == 'more' or act == 'leave' and leaving ~= store) then return stands(2) end
if act == 'stay' and leaving == store then
  redis.call('HDEL', notes, GOING_TO)
  redis.call('ZADD', K_UNUSED, now, ARGV[3])
  leaving = nil
end
if act == 'look' or act == 'stay' or act == 'end' and not note then return stands(0) end
upkeep()
local q = queue_of(ARGV[3])
if act == 'begin' or act == 'leave' then
  if act == 'begin' then
    note = run .. string.sub(note or '', 9)
    redis.call('HSET', notes, store, note)
  else
    leaving = store
    redis.call('HSET', notes, GOING_TO, store)
  end
  if q.new then
    redis.call('HSET', K_QUEUE .. q.name, 'accepted', q.accepted)
    redis.call('ZADD', K_QUEUES, 0, q.name)
  end
  save()
  publish()
  return stands(0)
end
if not note or string.sub(note, 1, 8) ~= run then
  save()
  publish()
  return stands(1)
end
if act == 'end' then
  redis.call('HDEL', notes, store)
  q.used = true
  note = nil
  save()
  publish()
  return stands(0)
end
if #ARGV < 7 then
  save()
  publish()
  return stands(0)
end
-- Which shard a key chooses may change while its jobs come.
if q.apart or q.changing then
  save()
  publish()
  return stands(3)
end

-- Which jobs have an id that no other job has, and the newest of these ids.
local newest, latest = redis.call('HGET', K_META, 'id'), first_id(math.max(now, IDS_BEGIN) + DAY)
newest = newest and number_of(newest) or 0
local taken, own = {}, {}
for i = 7, #ARGV, 5 do
  local id = ARGV[i + 1]
  if id ~= NOBODY and not taken[id] and number_of(id) <= latest and redis.call('HSTRLEN', K_JOBS, id) == 0 then
    taken[id], own[i] = true, true
    newest = math.max(newest, number_of(id))
  end
end
-- New ids lie behind all that come along.
if newest > 0 then redis.call('HSET', K_META, 'id', struct.pack('>I8', newest)) end

local function place(job)
  if job.state == DONE then
    q.done = q.done + 1
    if job.kept > now then redis.call('ZADD', K_DONE .. q.name, job.ended, job.id) end
    return dwindle(job)
  end
  q.bytes = q.bytes + job.size
  if job.state == DEAD then
    redis.call('ZADD', K_DEAD .. q.name, job.ended, job.id)
    if job.reason == EXPIRED then q.expired = q.expired + 1 else q.dead = q.dead + 1 end
    return
  end
  if job.expires > 0 then redis.call('ZADD', K_TIMERS, job.expires, job.id) end
  join(q, job)
end

local function adopt(i)
  local record, life = ARGV[i + 2], ARGV[i + 3]
  local job = open(ARGV[i + 1], record, life ~= '' and life or nil)
  job.due = tonumber(ARGV[i + 4])
  local holder = job.key and holder_of(q.name, job.key)
  local holds = job.key and (job.state ~= DONE or job.held > now)
  if holds and holder then
    if job.state ~= DONE or job.kept > now then
      return struct.pack('>Bc8B', DUPLICATE, holder.id, state_of(q, holder))
    end
    -- Nothing but the key is left of it, and somebody else sees to that.
    q.accepted, q.done = q.accepted + 1, q.done + 1
    return struct.pack('>Bc8B', NEW, holder.id, 3)
  end
  if not own[i] then job.id = next_id() end
  redis.call('HSET', K_JOBS, job.id, record)
  if life ~= '' then redis.call('HSET', K_LIVES, job.id, life) end
  if job.key and not holder then redis.call('HSET', K_KEYS_OF .. q.name, job.key, job.id) end
  q.accepted = q.accepted + 1
  place(job)
  return struct.pack('>Bc8B', NEW, job.id, 0)
end

local answers, last = {}, { act == 'more' and note or run }
for i = 7, #ARGV, 5 do
  local answer = adopt(i)
  answers[#answers + 1] = answer
  if string.byte(answer) == NEW then last[#last + 1] = ARGV[i] end
end
note = table.concat(last)
redis.call('HSET', notes, store, note)
save_ids()
save()
publish()
return stands(0, table.concat(answers))
