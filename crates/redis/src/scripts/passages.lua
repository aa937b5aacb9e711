
-- A page of a queue's jobs as they are stored, to be moved to another store: those that wait, the dead, the done that are kept,
-- and those of which only the key is left.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the queue   4 the part: 0 waiting, 1 dead, 2 done, 3 keys
--       5 the priority, 6 the score (of the keys: where the scan is) and 7 the id after which to go on, or nothing
--       8 how many at most   9 after how many bytes to stop
-- ->    the time, where to go on (priority, score, id; nothing at the end of the part), and id, record, life, score and the hash
--       of the life of each

local name, part, class, score, id = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local limit, room = tonumber(ARGV[8]), tonumber(ARGV[9])
local found, next = {}, {}

local function add(member, at, only)
  local record = redis.call('HGET', K_JOBS, member)
  if not record then return end
  local life = redis.call('HGET', K_LIVES, member)
  if only and not only(open(member, record, life)) then return end
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = member, record, life or '', at
  found[n + 5] = redis.sha1hex(life or '')
  room = room - #record - #(life or '')
end

-- Adds the members of a page until there is no room; says whether that was all of them.
local function add_all(members, priority)
  for i = 1, #members, 2 do
    if room <= 0 then return false end
    add(members[i], members[i + 1])
    next = { priority, members[i + 1], members[i] }
  end
  return true
end

if part == '0' then
  local q = { name = name }
  local from = class == '' and '-inf' or class
  local all = true
  for _, priority in ipairs(redis.call('ZRANGEBYSCORE', K_CLASSES .. name, from, '+inf')) do
    local here = priority == class
    local members = page(line_of(q, priority), here and score or '', here and id or '', limit)
    limit = limit - #members / 2
    all = add_all(members, priority)
    if not all or limit <= 0 then break end
  end
  if all and limit > 0 then next = {} end
elseif part == '3' then
  local answer = redis.call('HSCAN', K_KEYS_OF .. name, score == '' and '0' or score, 'COUNT', limit)
  for i = 2, #answer[2], 2 do
    add(answer[2][i], '', function(job) return job.state == DONE and job.kept <= now end)
  end
  if answer[1] ~= '0' then next = { '', answer[1], '' } end
else
  local members = page(part == '1' and K_DEAD .. name or K_DONE .. name, score, id, limit)
  if add_all(members, '') and #members / 2 < limit then next = {} end
end
return { tostring(now), next, found }
