
-- kick: scheduled, dead -> ready; reschedule: scheduled, ready, dead -> scheduled; cancel: all but leased and done -> cancelled,
-- a leased job is flagged; delete: all but leased -> cancelled
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the action: 1 kick, 2 cancel, 3 reschedule, 4 delete
--       4 when, for a reschedule: kind:1 at:6   5 '1' to move, '0' only to say what would happen
--       6 the states that a job must be in, as bits, 0 for any   then the ids
-- ->    for each id 2 bytes: moved:1 (2 is a conflict, 0 is unknown) state:1

-- scheduled, ready or dead -> scheduled or ready
local function put_back(q, job, event, due)
  lift(q, job, event, due)
  keep(job)
  join(q, job)
end

-- The arrows, by action and state: the state that follows, if there is one.
local ARROWS = {
  { [0] = 1, [4] = 1 },
  { [0] = 5, [1] = 5, [2] = 2, [4] = 5 },
  { [0] = 0, [1] = 0, [4] = 0 },
  { [0] = 5, [1] = 5, [3] = 5, [4] = 5 },
}

upkeep()
local action, act, wanted = tonumber(ARGV[3]), ARGV[5] == '1', tonumber(ARGV[6])
local due = now
if action == 3 then
  local kind, at = struct.unpack('>BI6', ARGV[4])
  due = kind == 0 and now or kind == 2 and at or at == 0 and now or ceiling + at
end
local answers = {}
for i = 7, #ARGV do
  local id = ARGV[i]
  local record = redis.call('HGET', K_JOBS, id)
  local job = record and open(id, record, redis.call('HGET', K_LIVES, id))
  if not job or job.state == DONE and job.kept <= now then
    answers[#answers + 1] = struct.pack('>BB', 0, 0)
  else
    local q = queue_of(job.queue)
    local state = state_of(q, job)
    local after = ARROWS[action][state]
    if wanted > 0 and not has(wanted, 2 ^ state) then after = nil end
    if not after then
      answers[#answers + 1] = struct.pack('>BB', 2, state)
    else
      if action == 2 and state == 2 then
        if act then
          job.cancel = true
          keep(job)
        end
      elseif action == 2 or action == 4 then
        if act then remove(q, job, action == 2 and CANCELLED or DELETE, '') end
      else
        after = due <= now and 1 or 0
        if act then put_back(q, job, action == 1 and KICK or RESCHEDULE, due) end
      end
      answers[#answers + 1] = struct.pack('>BB', 1, after)
    end
  end
end
save()
publish()
return table.concat(answers)
