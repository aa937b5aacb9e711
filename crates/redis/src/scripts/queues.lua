
-- Queues: settings, counts, books.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the process that asks   then the names; or, after '', the name after which to go on
--       and how many
-- ->    for each queue that there is: name, settings, the counts of COUNTS, ready, scheduled, done and kept,
--       the next due time or 0, when the rate allows the next lease or 0, how many other processes wait, when it was last asked
--       for or 0

local names = {}
if ARGV[4] == '' then
  local from = ARGV[5] == '' and '-' or '(' .. ARGV[5]
  names = redis.call('ZRANGEBYLEX', K_QUEUES, from, '+', 'LIMIT', 0, ARGV[6])
else
  for i = 4, #ARGV do names[#names + 1] = ARGV[i] end
end

local function info(q, config)
  local ready, scheduled, next_due = 0, 0, 0
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. q.name, 0, -1)) do
    local line = line_of(q, class)
    local due = redis.call('ZCOUNT', line, '-inf', now)
    local all = redis.call('ZCARD', line)
    ready, scheduled = ready + due, scheduled + all - due
    if all > due then
      local first = tonumber(redis.call('ZRANGE', line, due, due, 'WITHSCORES')[2])
      if next_due == 0 or first < next_due then next_due = first end
    end
  end
  local allowed = 0
  if q.count then
    local left, filled = level(q)
    if left < q.per then allowed = filled + math.ceil((q.per - left) / q.count) end
  end
  local others = redis.call('ZCARD', K_WAITING .. q.name)
  if redis.call('ZSCORE', K_WAITING .. q.name, ARGV[3]) then others = others - 1 end
  local asked = redis.call('HGET', K_QUEUE .. q.name, 'asked') or 0
  local counts = { q.name, config or '' }
  for _, count in ipairs(COUNTS) do counts[#counts + 1] = tostring(q[count]) end
  for _, number in ipairs({ ready, scheduled, redis.call('ZCARD', K_DONE .. q.name), next_due, allowed, others,
    asked }) do
    counts[#counts + 1] = tostring(number)
  end
  return counts
end

local infos = {}
for _, name in ipairs(names) do
  local q = queue_of(name)
  if not q.new then infos[#infos + 1] = info(q, redis.call('HGET', K_QUEUE .. name, 'config')) end
end
return infos
