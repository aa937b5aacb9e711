
-- lease: ready -> leased; take: ready -> done, where the length of a lease is zero
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the process that asks   4 '1' to lend though schedules are due
--       5 for queues that are spread and have a rate, what their homes allow: tokens:4 queue:1+ of each
--       then for those who ask for the same: fixed:1 ttr:6 waits:1 queues:2 members:2, the queues, and for each member max:4 and
--       the worker, and max random nonces of 8 bytes
-- ->    the time; the time at which to look again, 0 for never; whether schedules are due (1) or must be armed anew (2); and
--       for those who ask together: how many jobs each got, and id, record and life of each job; and for each queue that is or
--       was spread its name and its settings, with want_room:4 want_tokens:4 tokens:4 (left over) spare:1 (whether it could lend
--       more than is due here) behind them
-- Without anybody who asks it only lets happen whose time has come.

-- How many leases the queue allows now; and when it allows the next one, if that is a matter of time.
local function room(q, max)
  if q.paused_out or q.changing then return 0 end
  if q.max_leased then max = math.min(max, most(q, 'leased') - leased(q)) end
  if q.count and q.apart then
    max = math.min(max, q.tokens or 0)
  elseif q.count then
    q.level = level(q)
    max = math.min(max, math.floor(q.level / q.per))
  end
  return math.max(max, 0)
end

-- How many jobs of a queue that is spread are due here, though its share of the leases, or the tokens that its home gave for
-- them, do not suffice.
local function held_back(q, wanted)
  if q.paused_out or q.changing or not (q.max_leased or q.count) then return end
  local due = 0
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    due = due + redis.call('ZCOUNT', line_of(q, class), '-inf', now)
  end
  due = math.min(due, wanted)
  local share = q.max_leased and math.max(most(q, 'leased') - leased(q), 0) or due
  q.want_room = math.max(q.want_room or 0, due - share)
  if q.count then q.want_tokens = math.max(q.want_tokens or 0, due - (q.tokens or 0)) end
end

-- The first due jobs of a fair queue, in turns: of the most urgent priority first those whose worker vanished, then the
-- first job of the group whose last turn is longest ago. Of groups that never had one, the first in line. With its group, if
-- it was found by that.
local function turn(q, class)
  local line = line_of(q, class)
  local front = redis.call('ZRANGEBYSCORE', line, -1, -1, 'LIMIT', 0, 1)[1]
  if front then return front end
  local best, best_due, best_id
  local ring, from = K_RING .. class .. ':' .. q.name, 0
  while true do
    local groups = redis.call('ZRANGE', ring, from, from + 63, 'WITHSCORES')
    for i = 1, #groups, 2 do
      if best and groups[i + 1] ~= '0' then return best_id, best end
      local head = redis.call('ZRANGE', group_line(q, class, groups[i]), 0, 0, 'WITHSCORES')
      local due = tonumber(head[2] or now + 1)
      if due <= now and (not best or due < best_due or due == best_due and head[1] < best_id) then
        best, best_due, best_id = groups[i], due, head[1]
      end
    end
    from = from + 64
    if best then return best_id, best end
    -- While the groups of a queue that was just made fair are gathered, the line itself has the rest.
    if #groups < 128 then return redis.call('ZRANGEBYSCORE', line, '-inf', now, 'LIMIT', 0, 1)[1] end
  end
end

-- The next due jobs of a priority: ids and due times in turn.
local function chosen(q, class, most)
  if not q.fair then
    return redis.call('ZRANGEBYSCORE', line_of(q, class), '-inf', now, 'WITHSCORES', 'LIMIT', 0, most)
  end
  while true do
    local id, group = turn(q, class)
    local score = id and redis.call('ZSCORE', line_of(q, class), id)
    if not id or score then return id and { id, score } or {} end
    -- The line is the truth: a group that has what the line has not would be asked for it for ever.
    leave_group(q, class, group, id)
  end
end

local meta = redis.call('HMGET', K_META, 'leases', 'armed')
local counter = tonumber(meta[1] or 0)
local before = counter

-- Whose turn it is among those who ask together; each gets its jobs before the next.
local function member_of(ask)
  local member = ask.members[ask.at]
  if member.got == member.max then
    ask.at = ask.at + 1
    member = ask.members[ask.at]
  end
  member.got = member.got + 1
  counter = counter + 1
  return member, string.sub(member.nonces, member.got * 8 - 7, member.got * 8)
end

-- A job that happened to be chosen before, or has a key, a group, an end, or is delivered at most once.
local function lend(q, ask, job)
  local member, nonce = member_of(ask)
  job.counter, job.nonce = counter, nonce
  job.attempt, job.worker = job.attempt + 1, member.worker
  job.length = job.ttr == 0 and 0 or ask.ttr or job.ttr
  job.deadline = now + job.length
  if job.ttr == 0 then
    -- Done before anybody has it.
    finish(q, job, TAKE, job.worker)
    job.state = DONE
  else
    job.state = LEASED
    remember(job, LEASE, job.worker, '')
    notice(q.name, job.id, LEASE, job.worker, '')
  end
  return pack(job)
end

-- A job to which nothing has happened yet: the way that nearly all take. The end of its life is the same for all.
local function lend_fresh(q, ask, id, record, due, ttr)
  local member, nonce = member_of(ask)
  if not member.tail then
    member.tail = struct.pack(TAIL, #member.worker, member.worker, 0, '', 0, '', 0, 0, 0, 0, 0, '', 1)
      .. moment(LEASE, member.worker, '')
  end
  local head = struct.unpack('>I4', record, 13)
  if watched then notice(q.name, id, LEASE, member.worker, '') end
  return struct.pack(HEAD, LEASED, 0, 1, 0, 0, due, counter, nonce, now + ttr, ttr, #record - 12 - head, #q.name, q.name)
    .. member.tail
end

-- A group had its turn, and comes last in the ring if it has more.
local function turned(q, class, job)
  local group = group_id(job.group)
  local turns = redis.call('HINCRBY', K_QUEUE .. q.name, 'turn', 1)
  redis.call('HSET', K_TURNS .. q.name, group, turns)
  leave_group(q, class, group, job.id)
  redis.call('ZADD', K_RING .. class .. ':' .. q.name, 'XX', turns, group)
end

-- Deadlines as text: most leases of a call end at the same time.
local deadlines = {}
local function as_text(time)
  local text = deadlines[time]
  if not text then
    text = string.format('%.0f', time)
    deadlines[time] = text
  end
  return text
end

-- Lends the first due jobs of a priority; says how many.
local function serve_class(q, class, ask, most, lent)
  local given = 0
  -- Where the flags of a record of this queue are.
  local flags_at = 32 + #q.name
  while given < most do
    local next = chosen(q, class, math.min(most - given, 1000))
    if #next == 0 then return given end
    local ids = {}
    for i = 1, #next, 2 do ids[#ids + 1] = next[i] end
    local records = redis.call('HMGET', K_JOBS, unpack(ids))
    local lives = redis.call('HMGET', K_LIVES, unpack(ids))
    if q.fair then
      redis.call('ZREM', line_of(q, class), ids[1])
    else
      redis.call('ZREMRANGEBYRANK', line_of(q, class), 0, #ids - 1)
    end
    local kept, timers = {}, {}
    for i, id in ipairs(ids) do
      local record, life = records[i], lives[i]
      local lease, deadline
      if record and not life and string.byte(record, flags_at) % 8 == 0 and not q.fair then
        local expires, _, _, ttr = struct.unpack('>I6I4I4I6', record, 7)
        if expires == 0 and ttr > 0 then
          ttr = ask.ttr or ttr
          deadline = now + ttr
          lease = lend_fresh(q, ask, id, record, tonumber(next[i * 2]), ttr)
        end
      end
      if record and not lease then
        local job = open(id, record, life)
        -- Where a job stands at the front, only its life knows when it was due.
        if not job.front then job.due = tonumber(next[i * 2]) end
        if job.state ~= WAITING then
          -- It has no business in the line, and is out of it now.
          if q.fair then leave_group(q, class, group_id(job.group), id) end
        elseif job.expires > 0 and job.expires <= now then
          if q.fair then leave_group(q, class, group_id(job.group), id) end
          -- It stands in no line any more.
          job.state = LEASED
          die(q, job, EXPIRE, EXPIRED, '', '')
        else
          lease = lend(q, ask, job)
          if job.state == LEASED then deadline = job.deadline end
          if q.fair then turned(q, class, job) end
        end
      end
      if lease then
        given = given + 1
        local n = #lent
        lent[n + 1], lent[n + 2], lent[n + 3] = id, record, lease
        if deadline then
          n = #kept
          kept[n + 1], kept[n + 2] = id, lease
          timers[n + 1], timers[n + 2] = as_text(deadline), id
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

-- Lends what a queue may lend to those who ask together.
local function serve(q, ask, lent)
  local wanted = 0
  for i = ask.at, #ask.members do wanted = wanted + ask.members[i].max end
  local left = room(q, wanted)
  local given = 0
  if left == 0 then
    if q.apart then held_back(q, wanted) end
    return
  end
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    given = given + serve_class(q, class, ask, left - given, lent)
    if redis.call('EXISTS', line_of(q, class)) == 0 then redis.call('ZREM', K_CLASSES .. q.name, class) end
    if given == left then break end
  end
  if q.count and q.apart then
    q.tokens = q.tokens - given
  elseif q.count and given > 0 then
    q.level = q.level - given * q.per
    redis.call('HSET', K_QUEUE .. q.name, 'level', q.level, 'at', now)
  end
  q.given = (q.given or 0) + given
  -- Who got some waits for no more, and does not go on to the next queue.
  if ask.members[ask.at].got > 0 then ask.at = ask.at + 1 end
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
local at = ticks > 0 and ARGV[4] ~= '1' and #ARGV + 1 or 6
local tokens_at = 1
while tokens_at <= #ARGV[5] do
  local tokens, name
  tokens, name, tokens_at = struct.unpack('>I4Bc0', ARGV[5], tokens_at)
  queue_of(name).tokens = tokens
end
while at <= #ARGV do
  local ask = { at = 1, members = {} }
  local fixed, waits, queues_asked, members
  fixed, ask.ttr, waits, queues_asked, members = struct.unpack('>BI6BI2I2', ARGV[at])
  if fixed == 0 then ask.ttr = nil end
  for i = at + 1, at + queues_asked do asked[ARGV[i]] = queue_of(ARGV[i]) end
  local first = at + queues_asked
  for i = 1, members do
    local head = ARGV[first + i * 2 - 1]
    ask.members[i] = { max = struct.unpack('>I4', head), worker = string.sub(head, 5), nonces = ARGV[first + i * 2], got = 0 }
  end
  local lent = {}
  for i = at + 1, at + queues_asked do
    serve(asked[ARGV[i]], ask, lent)
    if ask.at > members then break end
  end
  if ask.at <= members and waits == 1 then
    for i = at + 1, at + queues_asked do
      local q = asked[ARGV[i]]
      look_again(q)
      redis.call('ZADD', K_WAITING .. q.name, 'NX', now, process)
      -- Who waits says so again every few seconds; of who is gone, or only asked once for what never was, nothing is to stay.
      redis.call('PEXPIRE', K_WAITING .. q.name, 60000)
    end
  end
  local got = {}
  for i = 1, members do got[i] = ask.members[i].got end
  answers[#answers + 1] = { got, lent }
  at = first + members * 2 + 1
end
if counter > before then redis.call('HSET', K_META, 'leases', counter) end
-- What is left is for the next who wait.
local spreads = {}
for _, q in pairs(asked) do
  if q.apart and q.count then
    -- Whether there are tokens for them only its home knows.
    if q.given and q.given > 0 then q.tokens = q.tokens + 1 end
    if room(q, 1) > 0 and has_due(q) then wake(q, 1) end
    if q.given and q.given > 0 then q.tokens = q.tokens - 1 end
  elseif redis.call('EXISTS', K_WAITING .. q.name) == 1 and has_due(q) and room(q, 1) > 0 then
    wake(q, 1)
  end
  if q.spread then
    spreads[#spreads + 1] = q.name
    local spare = q.apart and q.max_leased and most(q, 'leased') > leased(q)
    spreads[#spreads + 1] = q.config
      .. struct.pack('>I4I4I4B', q.want_room or 0, q.want_tokens or 0, q.tokens or 0, spare and 1 or 0)
  end
end
local timer = redis.call('ZRANGE', K_TIMERS, 0, 0, 'WITHSCORES')[2]
if not timer then
  -- A member that is so long makes Redis keep the set as a tree: as the packed list that small sets are, each change of it
  -- would walk through half of it.
  redis.call('ZADD', K_TIMERS, '+inf', LAST)
elseif timer ~= 'inf' then
  look_at(tonumber(timer))
end
look_at(tick)
save()
publish()
return { tostring(now), tostring(again), ticks, answers, spreads }
