
-- A piece of the stored jobs, each with the places where it is found.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the cursor, '0' at first   4 about how many jobs
-- ->    the next cursor, '0' at the end, and for each job: id, state, reason, queue, size, problem

local scan = redis.call('HSCAN', K_JOBS, ARGV[3], 'COUNT', ARGV[4])
local found = {}
for i = 1, #scan[2], 2 do
  local id, record = scan[2][i], scan[2][i + 1]
  local job = open(id, record, redis.call('HGET', K_LIVES, id))
  local q = { name = job.queue }
  local waits = redis.call('ZSCORE', line_of(q, job.priority), id)
  local timer = redis.call('ZSCORE', K_TIMERS, id)
  local dead = redis.call('ZSCORE', K_DEAD .. job.queue, id)
  local done = redis.call('ZSCORE', K_DONE .. job.queue, id)
  local problem = ''
  if (job.state == WAITING) ~= (waits and true or false) then problem = waits and 'stands in line' or 'stands in no line' end
  if (job.state == DEAD) ~= (dead and true or false) then problem = dead and 'is among the dead' or 'is not among the dead' end
  if job.state ~= DONE and done then problem = 'is among the done' end
  if (job.state == LEASED or job.state == DONE) and not timer then problem = 'has no timer' end
  if job.key and job.state ~= DONE and redis.call('HGET', K_KEYS_OF .. job.queue, job.key) ~= id then
    problem = 'does not have its key'
  end
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4], found[n + 5], found[n + 6] =
    id, job.state, job.reason, job.queue, job.size, problem
end
return { scan[1], found }
