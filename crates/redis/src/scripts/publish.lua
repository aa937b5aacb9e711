
-- publish: (nothing) -> scheduled or ready, in the queue of each subscription, or nowhere
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 '1' to keep the jobs, '0' only to see whether all would be taken
--       then for each copy the head of a run of one (see run_of), and its spec
-- ->    1, 0 and for each copy 16 bytes as push answers; or 0, which copy was refused (the first is 0), and the answer to it

upkeep()
local copies = {}
for i = 4, #ARGV, 2 do
  local run = run_of(ARGV[i])
  copies[#copies + 1] = { run = run, q = queue_of(run.queue), spec = ARGV[i + 1] }
end

-- What would be refused, when the copies before it were taken.
local function refused()
  local taken, before = {}, {}
  for i, copy in ipairs(copies) do
    local q, run, size = copy.q, copy.run, size_of(copy.spec)
    before[q] = before[q] or { q.accepted, q.bytes }
    local name = run.key and run.queue .. '\0' .. run.key
    local old = name and (taken[name] or holder_of(run.queue, run.key))
    local why
    if run.epoch ~= q.epoch or q.changing then
      why = answer(ELSEWHERE, NOBODY, 0, 0)
    elseif run.held and not old then
      why = answer(FREE, NOBODY, 0, 0)
    elseif old and run.policy == REPLACE_IT then
      why = no_replacing(q, old, size)
      q.bytes = q.bytes - old.size + size
      taken[name] = { id = old.id, state = WAITING, front = true, due = now, size = size }
    elseif old then
      why = run.policy == REJECT and duplicate(q, old) or nil
    else
      why = refusal(q, size)
      q.accepted, q.bytes = q.accepted + 1, q.bytes + size
      if name then taken[name] = { id = NOBODY, state = WAITING, front = true, due = now, size = size } end
    end
    if why then return why, before, i - 1 end
  end
  return nil, before, 0
end

local why, before, which = refused()
for q, counts in pairs(before) do q.accepted, q.bytes = counts[1], counts[2] end
local answers = {}
if not why and ARGV[3] == '1' then
  for _, copy in ipairs(copies) do
    answers[#answers + 1] = push_one(copy.q, copy.run, copy.spec)
  end
end
save_ids()
save()
publish()
return { why and 0 or 1, which, why or table.concat(answers) }
