
-- push: (nothing) -> scheduled, or ready at once
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices
--       then for each run of jobs that differ in nothing but what no script reads: its head (see run_of), and its records
-- ->    for each job, or for all of a run (how is RUN, the id the first), 16 bytes: how:1 id:8 state:1 due:6; for the first jobs
--       only if all would have taken too long

-- Jobs without a key, a limit, a group or an end: the way that nearly all take, in three commands for all of them.
local function push_plain(q, run, first)
  local ready = run.due <= now
  local count, args, jobs, line = run.count, ARGV, {}, {}
  local many = next_ids(count)
  -- As long as ids run with the clock, they say when jobs were made, and what the client sent is the record as it is.
  local head = time_of(many[count]) ~= now and struct.pack('>I6I6', now, 0)
  -- As text once: each number that a command is given is written out and read again.
  local due = string.format('%.0f', run.due)
  for i = 1, count do
    local id, record = many[i], args[first + i - 1]
    local n = i + i
    jobs[n - 1], jobs[n] = id, head and head .. string.sub(record, 13) or record
    line[n - 1], line[n] = due, id
  end
  if watched then
    for i = 1, count do notice(q.name, many[i], PUSH, '', '') end
  end
  q.accepted, q.bytes = q.accepted + count, q.bytes + run.bytes
  redis.call('HSET', K_JOBS, unpack(jobs))
  local key = line_of(q, run.priority)
  if count > 16 then
    -- As the packed list that a small set is, each job of a batch would walk through it: begun with so long a member, the set is
    -- a tree from the start, and stays one.
    redis.call('ZADD', key, due, LAST, unpack(line))
    redis.call('ZREM', key, LAST)
  else
    redis.call('ZADD', key, unpack(line))
  end
  redis.call('ZADD', K_CLASSES .. q.name, run.priority, run.priority)
  if ready then
    wake(q, count)
  elseif redis.call('ZRANGE', key, 0, 0)[1] == many[1] then
    wake(q, 1)
  end
  -- One answer for all: their ids follow each other.
  return answer(RUN, many[1], ready and 1 or 0, run.due)
end

upkeep()
local answers, spent = {}, 0
local at = 3
while at <= #ARGV and spent < BUDGET do
  local run = run_of(ARGV[at])
  local q = queue_of(run.queue)
  if run.epoch ~= q.epoch or q.changing then
    answers[#answers + 1] = string.rep(answer(ELSEWHERE, NOBODY, 0, 0), run.count)
  elseif crowded(q) then
    answers[#answers + 1] = string.rep(answer(CROWDED, NOBODY, 0, 0), run.count)
  elseif not run.key and run.expires == 0 and not (q.fair or q.paused_in or q.max_jobs or q.max_bytes) and run.count <= 2000 then
    answers[#answers + 1] = push_plain(q, run, at + 1)
    spent = spent + 20 + 3 * run.count + bytes_cost(run.bytes)
  else
    for i = at + 1, at + run.count do
      if spent >= BUDGET then break end
      answers[#answers + 1] = push_one(q, run, string.sub(ARGV[i], 13))
      spent = spent + 40 + bytes_cost(#ARGV[i])
    end
  end
  at = at + 1 + run.count
end
save_ids()
save()
publish()
return table.concat(answers)
