
-- A piece of all sets that have jobs: who is in them but has no business there.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the queue, nothing for the sets of the whole shard, which come
--       first   4 which of its sets, '1' at first   5 the cursor in it, '0' at first   6 about how many members to look at
-- ->    where to go on (queue, set, cursor; nothing at the end), and for each stray: set, queue, priority, group, member

-- Of a group only the first is looked at: it is the next to be lent. A small ring comes as a whole, with all its groups.
local HEADS = 1

local function places(queue)
  if queue == '' then return { place_of('lives', ''), place_of('timers', '') } end
  local all = { place_of('dead', queue), place_of('done', queue), place_of('keys', queue) }
  local classes = redis.call('ZRANGE', K_CLASSES .. queue, 0, -1)
  for _, class in ipairs(classes) do
    all[#all + 1] = place_of('line', queue, class)
    all[#all].alone = #classes == 1
    if queue_of(queue).fair then all[#all + 1] = place_of('ring', queue, class) end
  end
  return all
end

local found = {}
local function look(place, member, holder)
  if belongs(place, member, place.alone, holder) then return end
  for _, part in ipairs({ place.kind, place.queue, place.class or '', place.group or '', member }) do
    found[#found + 1] = part
  end
end

local queue, at, cursor, left = ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local all = places(queue)
while left > 0 do
  local place = all[at]
  if place then
    local hash = place.kind == 'lives' or place.kind == 'keys'
    local scan = redis.call(hash and 'HSCAN' or 'ZSCAN', place.key, cursor, 'COUNT', left)
    for i = 1, #scan[2], 2 do
      local member = scan[2][i]
      -- A small hash comes as a whole, and to find a key in it is to walk through it.
      look(place, member, place.kind == 'keys' and scan[2][i + 1])
      if place.kind == 'ring' then
        local group = place_of('group', queue, place.class, member)
        local heads = redis.call('ZRANGE', group.key, 0, HEADS - 1)
        for _, id in ipairs(heads) do look(group, id) end
        left = left - #heads
      end
    end
    left = left - 1 - #scan[2] / 2
    cursor = scan[1]
    if cursor == '0' then at = at + 1 end
  else
    queue = redis.call('ZRANGEBYLEX', K_QUEUES, queue == '' and '-' or '(' .. queue, '+', 'LIMIT', 0, 1)[1]
    if not queue then return { {}, found } end
    all, at, cursor, left = places(queue), 1, '0', left - 1
  end
end
return { { queue, tostring(at), cursor }, found }
