
-- ready -> leased, or done if the length of its lease is zero. Whoever calls this takes it out of its line, and keeps what is
-- answered: its life. A lease that is pending must be confirmed before it counts.
local function lend(q, job, number, nonce, worker, ttr, pending)
  job.counter, job.nonce, job.pending = number, nonce, pending
  job.attempt, job.worker = job.attempt + 1, worker
  job.length = job.ttr == 0 and 0 or ttr or job.ttr
  job.deadline = now + job.length
  if job.ttr == 0 then
    -- Done before anybody has it.
    finish(q, job, TAKE, job.worker)
    job.state = DONE
  else
    job.state = LEASED
    remember(job, LEASE, job.worker, '')
    notice(q.name, job.id, LEASE, job.worker, '')
  end
  return pack(job)
end

-- A group had its turn, and comes last in the ring if it has more.
local function turned(q, class, job)
  local group = group_id(job.group)
  local turns = redis.call('HINCRBY', K_QUEUE .. q.name, 'turn', 1)
  leave_group(q, class, group, job.id)
  redis.call('ZADD', K_RING .. class .. ':' .. q.name, 'XX', turns, group)
end
