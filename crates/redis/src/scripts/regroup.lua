
-- Gathers the groups of a queue that was made fair, or scatters those of one that is so no more, piece by piece.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the queue   4 the priority, 5 the score and 6 the id after which to go on, or
--       nothing
-- ->    where to go on, or nothing when all is done

local PIECE = 100
local q = queue_of(ARGV[3])
local class, score, id = ARGV[4], ARGV[5], ARGV[6]
local from = class == '' and '-inf' or class
for _, priority in ipairs(redis.call('ZRANGEBYSCORE', K_CLASSES .. q.name, from, '+inf')) do
  local here = priority == class
  local members = page(line_of(q, priority), here and score or '', here and id or '', PIECE)
  for i = 1, #members, 2 do
    local record = redis.call('HGET', K_JOBS, members[i])
    if record then
      local group = group_id(open(members[i], record).group)
      if q.fair then
        join_group(q, priority, group, members[i + 1], members[i])
      else
        leave_group(q, priority, group, members[i])
      end
    end
  end
  if #members > 0 then return { priority, members[#members], members[#members - 1] } end
end
return {}
