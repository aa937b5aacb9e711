
-- A page of a queue's jobs: those that wait in the order of their turn, then the leased, the dead, the done.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the queue   4 the part: 0 waiting, 1 leased, 2 dead, 3 done
--       5 the priority, 6 the score and 7 the id after which to go on, or nothing   8 how many at most
-- ->    the time, where to go on (priority, score, id; nothing at the end of the part), and id, record, life and score of each

local name, part, class, score, id, limit = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
local found, next = {}, {}

local function add(set, members, only)
  for i = 1, #members, 2 do
    local record = redis.call('HGET', K_JOBS, members[i])
    local life = redis.call('HGET', K_LIVES, members[i])
    if record and (not only or only(members[i], record, life)) then
      local n = #found
      found[n + 1], found[n + 2], found[n + 3], found[n + 4] = members[i], record, life or '', members[i + 1]
    end
  end
end

if part == '0' then
  local q = { name = name }
  local from = class == '' and '-inf' or class
  for _, priority in ipairs(redis.call('ZRANGEBYSCORE', K_CLASSES .. name, from, '+inf')) do
    local here = priority == class
    local members = page(line_of(q, priority), here and score or '', here and id or '', limit)
    add(K_LINE, members)
    if #members > 0 then next = { priority, members[#members], members[#members - 1] } end
    limit = limit - #members / 2
    if limit <= 0 then break end
  end
  if limit > 0 then next = {} end
else
  local set = part == '1' and K_TIMERS or part == '2' and K_DEAD .. name or K_DONE .. name
  local members = page(set, score, id, limit)
  add(set, members, part == '1' and function(_, _, life)
    if not life then return false end
    local state, _, _, _, _, _, _, _, _, _, _, queue = struct.unpack(HEAD, life)
    return state == LEASED and queue == name
  end)
  if #members / 2 == limit then next = { '', members[#members], members[#members - 1] } end
end
return { tostring(now), next, found }
