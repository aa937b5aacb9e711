
-- Jobs that are at another store now: scheduled, ready, dead, done -> (nothing), as if they had never been here
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 the queue
--       then for each job its id and the beginning of the hash of its life, or nothing for any
-- ->    for each job 1 byte: 0 it is not here, 1 it is gone, 2 it is leased, 3 it has changed

local function depart(id, version)
  local record = redis.call('HGET', K_JOBS, id)
  local life = record and redis.call('HGET', K_LIVES, id)
  local job = record and open(id, record, life)
  if not job or job.queue ~= ARGV[3] then return 0 end
  if job.state == LEASED then return 2 end
  if version ~= '' and version ~= string.sub(redis.sha1hex(life or ''), 1, #version) then return 3 end
  local q = queue_of(job.queue)
  q.accepted = q.accepted - 1
  if job.state == DONE then
    redis.call('ZREM', K_DONE .. q.name, id)
    q.done = q.done - 1
  else
    if job.state == WAITING then leave(q, job) else undie(q, job) end
    q.bytes = q.bytes - job.size
  end
  erase(job)
  return 1
end

upkeep()
local answers = {}
for i = 4, #ARGV, 2 do
  answers[#answers + 1] = string.char(depart(ARGV[i], ARGV[i + 1]))
end
save()
publish()
return table.concat(answers)
