
-- lease: ready -> leased; take: ready -> done, where the length of a lease is zero
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the process that asks   4 1 to lend though schedules are due, plus
--       2 if leases are pending until they are confirmed
--       5 for queues that are spread and have a rate, what their homes allow: tokens:4 queue:1+ of each
--       then for those who ask for the same: how:1 ttr:6 waits:1 queues:2 members:2, the queues, and for each member max:4 and
--       the worker, and max random nonces of 8 bytes; how is 1 if all leases are as long as ttr says, plus 2 if the queue is to
--       give whose next job is the most urgent, not the first that has one
-- ->    the time in microseconds; the time at which to look again, 0 for never; whether schedules are due (1) or must be armed anew (2); and
--       for those who ask together: how many jobs each got, and id, record and life of each job; and for each queue that is or
--       was spread its name and its settings, with want_room:4 want_tokens:4 tokens:4 (left over) spare:1 (whether it could lend
--       more than is due here) behind them; and 1 if those of the last answer may have more, 2 if those who ask behind them have
--       no answer because all would have taken too long
-- Without asks the script only lets happen whose time has come. It then fails where Redis takes no changes, though it has none to make, so
-- that the process knows before a call asks.

-- What was spent, see part_moves.
local spent = 0

-- How many leases the queue allows now; and when it allows the next one, if that is a matter of time.
local function room(q, max)
  if paused(q) or q.changing then return 0 end
  if q.max_leased then max = math.min(max, most(q, 'leased') - leased(q)) end
  if q.count and q.apart then
    max = math.min(max, q.tokens or 0)
  elseif q.count then
    q.level, q.filled = level(q)
    max = math.min(max, math.floor(q.level / q.per))
  end
  return math.max(max, 0)
end

-- How many jobs of a queue that is spread are due here, though its share of the leases, or the tokens that its home gave for
-- them, do not suffice.
local function held_back(q, wanted)
  if paused(q) or q.changing or not (q.max_leased or q.count) then return end
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
-- first due job of the first group in the ring. With its group, if it was found by that.
local function turn(q, class)
  local line = line_of(q, class)
  local front = redis.call('ZRANGEBYSCORE', line, -1, -1, 'LIMIT', 0, 1)[1]
  if front then return front end
  local ring, from = K_RING .. class .. ':' .. q.name, 0
  while true do
    local groups = redis.call('ZRANGE', ring, from, from + 63)
    for _, group in ipairs(groups) do
      local head = redis.call('ZRANGE', group_line(q, class, group), 0, 0, 'WITHSCORES')
      if tonumber(head[2] or now + 1) <= now then return head[1], group end
    end
    from = from + 64
    -- While the groups of a queue that was just made fair are gathered, the line itself has the rest.
    if #groups < 64 then return redis.call('ZRANGEBYSCORE', line, '-inf', now, 'LIMIT', 0, 1)[1] end
  end
end

-- The next due jobs of a priority; of a fair queue, with when they were due.
local function chosen(q, class, most)
  if not q.fair then
    return redis.call('ZRANGEBYSCORE', line_of(q, class), '-inf', now, 'LIMIT', 0, most)
  end
  while true do
    local id, group = turn(q, class)
    local score = id and redis.call('ZSCORE', line_of(q, class), id)
    if not id or score then return { id or nil }, { score or nil } end
    -- The line is the truth: a group that has what the line has not would be asked for it for ever.
    leave_group(q, class, group, id)
  end
end

-- When the first so many jobs of a priority were due. Written out by Redis and read here, these numbers are a good part of
-- what a lease costs: so they are only asked for where a job does not say it itself.
local function due_times(q, class, count)
  local times, first = {}, redis.call('ZRANGE', line_of(q, class), 0, count - 1, 'WITHSCORES')
  for i = 1, count do times[i] = first[i * 2] end
  return times
end

local counter = tonumber(meta[3] or 0)
local before = counter
local pending = has(tonumber(ARGV[4]), 2)

-- Whose turn it is among those who ask together; each gets its jobs before the next.
local function member_of(ask)
  local member = ask.members[ask.at]
  if member.got == member.max then
    ask.at = ask.at + 1
    member = ask.members[ask.at]
  end
  return member
end

-- What a lease of a job to which nothing has happened yet begins with.
local FRESH = struct.pack('>BBI4I4I4', LEASED, pending and PENDING or 0, 1, 0, 0)

-- What the head of a record says, if its job wants nothing special: how long it is, the length of the lease, and whether it was
-- due only later. Most jobs of a queue have the same.
local function plain(ask, head)
  local created, expires, length, _, ttr = struct.unpack('>I6I6I4I4I6', head)
  if created < BY_ID or expires > 0 or ttr == 0 or string.byte(head, -1) % 8 > 0 then return {} end
  return { length = 12 + length, ttr = ask.ttr or ttr, later = created == BY_ID }
end

-- Lends jobs to which nothing has happened yet, the way that nearly all take: from the i-th on until one comes that is not
-- like that, or the member who asks has enough. Says which one comes next. Only the token, and when it was due, differ from
-- one such job to the next; the rest is read and packed once for all that look alike.
local function lend_fresh(q, class, ask, batch, i)
  local sub, find, char, pack, member = string.sub, string.find, string.char, struct.pack, member_of(ask)
  local ids, records, lives, lent, kept, timers = batch.ids, batch.records, batch.lives, batch.lent, batch.kept, batch.timers
  local got, max, nonces, number, n, m = member.got, member.max, member.nonces, counter, batch.n, lent.n
  -- Where the flags of a record of this queue are.
  local flags_at = 32 + #q.name
  local head, kind, ms, due, front, size, rest, deadline
  local cost = 0
  while got < max do
    local id, record = ids[i], records[i]
    if not record or lives[i] then break end
    -- To find a string in its place costs a fraction of what it costs to cut out another one.
    if not head or find(record, head, 1, true) ~= 1 then
      head, size = sub(record, 1, flags_at), nil
      kind = plain(ask, head)
    end
    if not kind.ttr then break end
    if #record ~= size then
      size = #record
      rest = pack('>I6I6I4Bc0', now + kind.ttr, kind.ttr, size - kind.length, #q.name, q.name)
        .. pack(TAIL, #member.worker, member.worker, 0, '', 0, '', 0, 0, 0, 0, 0, '', 1) .. moment(LEASE, member.worker, '')
      deadline = string.format('%.0f', now + kind.ttr)
    end
    got, number = got + 1, number + 1
    local low = number % 256
    if kind.later then
      batch.times = batch.times or due_times(q, class, #ids)
      if low == 0 or due ~= batch.times[i] then
        ms, due = nil, batch.times[i]
        front = FRESH .. pack('>I6', tonumber(due)) .. sub(pack('>I6', number), 1, 5)
      end
    -- What ids have in common that differ by less than 256, and so belong to one millisecond; and the counter but for its last byte.
    elseif low == 0 or not ms or find(id, ms, 1, true) ~= 1 then
      ms, due = sub(id, 1, 7), nil
      front = FRESH .. pack('>I6', time_of(id)) .. sub(pack('>I6', number), 1, 5)
    end
    -- Not `pack`, which copies byte by byte.
    local lease = front .. char(low) .. sub(nonces, got * 8 - 7, got * 8) .. rest
    lent[m + 1], lent[m + 2], lent[m + 3] = id, record, lease
    kept[n + 1], kept[n + 2] = id, lease
    timers[n + 1], timers[n + 2] = deadline, id
    m, n, i = m + 3, n + 2, i + 1
    cost = cost + #record
    if watched then notice(q.name, id, LEASE, member.worker, '') end
  end
  spent = spent + 5 * (got - member.got) + bytes_cost(cost)
  member.got, counter, batch.n, lent.n = got, number, n, m
  return i
end

-- Lends the i-th job, whatever happened to it and whatever it wants; unless it is not to be lent.
local function lend_any(q, class, ask, batch, i)
  local id, record = batch.ids[i], batch.records[i]
  spent = spent + 25 + bytes_cost(#record + #(batch.lives[i] or ''))
  local job = open(id, record, batch.lives[i])
  batch.times = batch.times or due_times(q, class, #batch.ids)
  -- Where a job stands at the front, only its life knows when it was due.
  if not job.front then job.due = tonumber(batch.times[i]) end
  if job.state ~= WAITING then
    -- It has no business in the line, and is out of it soon.
    if q.fair then leave_group(q, class, group_id(job.group), id) end
  elseif job.expires > 0 and job.expires <= now then
    if q.fair then leave_group(q, class, group_id(job.group), id) end
    -- Whoever calls this takes it out of the line.
    job.state = LEASED
    die(q, job, EXPIRE, EXPIRED, '', '')
  else
    -- It happened to be chosen before, or has a key, a group, an end, or is delivered at most once.
    local lent, n, member = batch.lent, batch.n, member_of(ask)
    member.got, counter = member.got + 1, counter + 1
    local nonce = string.sub(member.nonces, member.got * 8 - 7, member.got * 8)
    local lease = lend(q, job, counter, nonce, member.worker, ask.ttr, pending)
    lent[lent.n + 1], lent[lent.n + 2], lent[lent.n + 3] = id, record, lease
    lent.n = lent.n + 3
    if job.state == LEASED then
      batch.kept[n + 1], batch.kept[n + 2] = id, lease
      batch.timers[n + 1], batch.timers[n + 2] = string.format('%.0f', job.deadline), id
      batch.n = n + 2
    end
    if q.fair then turned(q, class, job) end
  end
end

-- How many jobs of a queue can be lent with what is left to spend, if they are plain and as large as its jobs are on average.
local function affordable(q)
  local each = 5 + bytes_cost(q.bytes / math.max(stored(q), 1))
  return math.max(math.floor((BUDGET - spent) / each), 1)
end

-- Lends the first due jobs of a priority, of a fair queue only one, as long as there is something left to spend; says how many
-- it took out of the line.
local function serve_some(q, class, ask, most, lent)
  if spent >= BUDGET then return 0 end
  if q.fair then spent = spent + 20 end
  local ids, times = chosen(q, class, math.min(most, affordable(q)))
  local count = #ids
  if count == 0 then return 0 end
  local records = redis.call('HMGET', K_JOBS, unpack(ids))
  local lives = redis.call('HMGET', K_LIVES, unpack(ids))
  local batch = { ids = ids, records = records, lives = lives, times = times, lent = lent, kept = {}, timers = {}, n = 0 }
  local i = 1
  while i <= count and (i == 1 or spent < BUDGET) do
    local next = q.fair and i or lend_fresh(q, class, ask, batch, i)
    if next == i then
      if records[i] then lend_any(q, class, ask, batch, i) end
      next = i + 1
    end
    i = next
  end
  count = i - 1
  if q.fair then
    redis.call('ZREM', line_of(q, class), ids[1])
  else
    redis.call('ZREMRANGEBYRANK', line_of(q, class), 0, count - 1)
  end
  if batch.n > 0 then
    redis.call('HSET', K_LIVES, unpack(batch.kept))
    redis.call('ZADD', K_TIMERS, unpack(batch.timers))
  end
  return count
end

-- Lends the first due jobs of a priority; says how many.
local function serve_class(q, class, ask, most, lent)
  local before, given = lent.n, 0
  while given < most do
    if serve_some(q, class, ask, most - given, lent) == 0 then return given end
    given = (lent.n - before) / 3
  end
  return given
end

-- A priority of which no job waits any more is not looked at again.
local function forget_empty(q, class)
  if redis.call('EXISTS', line_of(q, class)) == 0 then redis.call('ZREM', K_CLASSES .. q.name, class) end
end

-- A queue has given so many jobs.
local function pay(q, given)
  if q.count and q.apart then
    q.tokens = q.tokens - given
  elseif q.count and given > 0 then
    q.level = q.level - given * q.per
    redis.call('HSET', K_QUEUE .. q.name, 'level', q.level, 'at', q.filled)
  end
  q.given = (q.given or 0) + given
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
    forget_empty(q, class)
    if given == left then break end
  end
  pay(q, given)
  -- Who got some waits for no more, and does not go on to the next queue.
  if ask.members[ask.at].got > 0 then ask.at = ask.at + 1 end
end

-- Where a job stands among the next jobs of several queues.
local function rank(class, score, id)
  local high, low = struct.unpack('>I4I4', id)
  return { tonumber(class), tonumber(score), high, low }
end

local function comes_before(a, b)
  for i = 1, 4 do
    if a[i] ~= b[i] then return a[i] < b[i] end
  end
  return false
end

-- The next job of a queue, if one is due. What stands before it and is not to be lent is taken out of the line.
local function head_of(q)
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    local line = line_of(q, class)
    local id = chosen(q, class, 1)[1]
    while id do
      local record = redis.call('HGET', K_JOBS, id)
      local job = record and open(id, record, redis.call('HGET', K_LIVES, id))
      if job and job.state == WAITING then
        if job.expires == 0 or job.expires > now then
          return { q = q, class = class, rank = rank(class, redis.call('ZSCORE', line, id), id) }
        end
        if spent >= BUDGET then return end
        die(q, job, EXPIRE, EXPIRED, '', '')
      elseif job and q.fair then
        leave_group(q, class, group_id(job.group), id)
      end
      redis.call('ZREM', line, id)
      spent = spent + 25
      id = chosen(q, class, 1)[1]
    end
    forget_empty(q, class)
  end
end

-- How many jobs of a line, from its head on, come before the next one of another queue.
local function ahead(head, rival, most)
  if not rival or head.rank[1] < rival.rank[1] then return most end
  local count, first = 0, redis.call('ZRANGE', line_of(head.q, head.class), 0, math.min(most, affordable(head.q)) - 1, 'WITHSCORES')
  while first[count * 2 + 1] and comes_before(rank(head.class, first[count * 2 + 2], first[count * 2 + 1]), rival.rank) do
    count = count + 1
  end
  return count
end

-- Lends to who asks for the most urgent of several queues: from the one whose next job it is, up to where one of another queue
-- comes first.
local function serve_best(best, rival, ask, lent)
  local q, given, before = best.q, 0, lent.n
  local left = room(q, ask.members[ask.at].max)
  repeat
    local most = left - given
    serve_some(q, best.class, ask, q.fair and 1 or ahead(best, rival, most), lent)
    forget_empty(q, best.class)
    given = (lent.n - before) / 3
    best = given < left and head_of(q)
  until not best or spent >= BUDGET or rival and not comes_before(best.rank, rival.rank)
  pay(q, given)
end

-- Serves those who ask together for the most urgent, one after the other: after each, another queue may have it.
local function serve_most_urgent(named, ask, lent)
  while ask.at <= #ask.members and spent < BUDGET do
    local best, rival
    for _, q in ipairs(named) do
      local head
      if room(q, 1) > 0 then
        head = head_of(q)
      elseif q.apart then
        held_back(q, ask.members[ask.at].max)
      end
      if head and (not best or comes_before(head.rank, best.rank)) then
        best, rival = head, best
      elseif head and (not rival or comes_before(head.rank, rival.rank)) then
        rival = head
      end
    end
    if not best then return end
    serve_best(best, rival, ask, lent)
    ask.at = ask.at + 1
  end
end

local again = 0
local function look_at(time)
  if time and (again == 0 or time < again) then again = time end
end

-- When there may be something for who found nothing.
local function look_again(q)
  if q.paused_out then return end
  if paused(q) then
    look_at(q.paused_until)
    q.later = true
    return
  end
  local ready = false
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    local first = redis.call('ZRANGE', line_of(q, class), 0, 0, 'WITHSCORES')
    ready = ready or tonumber(first[2]) <= now
    local later = redis.call('ZRANGEBYSCORE', line_of(q, class), '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if later then
      look_at(tonumber(later))
      q.later = true
    end
  end
  if ready and q.count and q.level and q.level < q.per then
    look_at(q.filled + math.ceil((q.per - q.level) / q.count))
  end
end

upkeep()
if #ARGV < 6 then redis.call('ZREM', KEYS[2], '') end
local process = ARGV[3]
local answers = {}
local asked = {}
local tick = tonumber(redis.call('ZRANGE', K_TICKS, 0, 0, 'WITHSCORES')[2])
-- Set back, the clock would silence the schedules until it has caught up: they must be armed anew.
local ticks = tick and (tonumber(meta[4] or 0) > now and 2 or tick <= now and 1) or 0
-- What a schedule is about to push may be more urgent than what is there: who asks is to see to it first.
local at = ticks > 0 and not has(tonumber(ARGV[4]), 1) and #ARGV + 1 or 6
local tokens_at = 1
while tokens_at <= #ARGV[5] do
  local tokens, name
  tokens, name, tokens_at = struct.unpack('>I4Bc0', ARGV[5], tokens_at)
  queue_of(name).tokens = tokens
end
local cut = 0
while at <= #ARGV and spent < BUDGET do
  local ask = { at = 1, members = {} }
  local how, waits, queues_asked, members
  how, ask.ttr, waits, queues_asked, members = struct.unpack('>BI6BI2I2', ARGV[at])
  if not has(how, 1) then ask.ttr = nil end
  for i = at + 1, at + queues_asked do asked[ARGV[i]] = queue_of(ARGV[i]) end
  local first = at + queues_asked
  for i = 1, members do
    local head = ARGV[first + i * 2 - 1]
    ask.members[i] = { max = struct.unpack('>I4', head), worker = string.sub(head, 5), nonces = ARGV[first + i * 2], got = 0 }
  end
  local lent = { n = 0 }
  if has(how, 2) then
    local named, seen = {}, {}
    for i = at + 1, at + queues_asked do
      -- A queue that is named twice is no rival of itself.
      if not seen[ARGV[i]] then named[#named + 1] = asked[ARGV[i]] end
      seen[ARGV[i]] = true
    end
    serve_most_urgent(named, ask, lent)
  else
    for i = at + 1, at + queues_asked do
      serve(asked[ARGV[i]], ask, lent)
      if ask.at > members then break end
    end
  end
  if spent >= BUDGET then cut = 1 end
  spent = spent + 20 * queues_asked
  -- Who was not looked for to the end is looked for again, and does not wait yet.
  if ask.at <= members and waits == 1 and cut == 0 then
    for i = at + 1, at + queues_asked do
      local q = asked[ARGV[i]]
      look_again(q)
      q.waited = true
      if q.later and q.clock ~= process then redis.call('HSET', K_QUEUE .. q.name, 'clock', process) end
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
if cut == 0 and at <= #ARGV then cut = 2 end
if counter > before then redis.call('HSET', K_META, 'leases', counter) end
-- What is left is for the next who wait.
local spreads = {}
for _, q in pairs(asked) do
  q.used = true
  if q.apart and q.count then
    -- Whether there are tokens for them only its home knows.
    if q.given and q.given > 0 then q.tokens = q.tokens + 1 end
    if room(q, 1) > 0 and has_due(q) then wake(q, 1) end
    if q.given and q.given > 0 then q.tokens = q.tokens - 1 end
  elseif redis.call('EXISTS', K_WAITING .. q.name) == 1 and has_due(q) and room(q, 1) > 0 then
    wake(q, 1)
  end
  -- Who had the alarm for what falls due next waits for it no more: who is told has it, or who comes next.
  if q.clock == process and not q.waited then
    redis.call('HDEL', K_QUEUE .. q.name, 'clock')
    if waiting(q) > 0 then wake(q, 1) end
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
return { string.format('%.0f', now * 1000 + micros), tostring(again), ticks, answers, spreads, cut }
