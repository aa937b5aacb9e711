
-- A page of a queue's jobs: those that wait in the order of their turn, then the leased, the dead, the done.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the queue   4 the part: 0 waiting, 1 leased, 2 dead, 3 done
--       5 the priority, 6 the score and 7 the id after which to go on, or nothing   8 how many at most
--       9 after how many bytes to stop
-- ->    the time, where to go on (priority, score, id; nothing at the end of the part), and id, record, life and score of each

local name, part, class, score, id, limit = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
local found, next, room = {}, {}, tonumber(ARGV[9])

-- Adds the members of a page until there is no room; says whether that was all of them.
local function add(members, priority, only)
  for i = 1, #members, 2 do
    if room <= 0 then return false end
    next = { priority, members[i + 1], members[i] }
    local record = redis.call('HGET', K_JOBS, members[i])
    local life = redis.call('HGET', K_LIVES, members[i])
    if record and (not only or only(members[i], record, life)) then
      local n = #found
      found[n + 1], found[n + 2], found[n + 3], found[n + 4] = members[i], record, life or '', members[i + 1]
      room = room - #record - #(life or '')
    end
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
    all = add(members, priority)
    if not all or limit <= 0 then break end
  end
  if all and limit > 0 then next = {} end
else
  local set = part == '1' and K_TIMERS or part == '2' and K_DEAD .. name or K_DONE .. name
  local members = page(set, score, id, limit)
  local all = add(members, '', part == '1' and function(_, _, life)
    if not life then return false end
    local state, _, _, _, _, _, _, _, _, _, _, queue = struct.unpack(HEAD, life)
    return state == LEASED and queue == name
  end)
  if all and #members / 2 < limit then next = {} end
end
return { tostring(now), next, found }
