
-- confirm: a pending lease counts from now on; take back: leased -> ready, as if it had never been lent, also if it has vanished since
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_notices   3 '1' to confirm, '0' to take back
--       then for each lease id:8 counter:6 nonce:8
-- ->    for each lease 1 byte: 1 if it runs

local confirms = ARGV[3] == '1'
-- A lease that is taken back must not vanish first: that would be counted.
if confirms then upkeep() end
local answers = {}
for i = 4, #ARGV do
  local id, token = string.sub(ARGV[i], 1, 8), string.sub(ARGV[i], 9)
  local life = redis.call('HGET', K_LIVES, id)
  -- In a life the counter and the nonce stand side by side, too.
  local known = life and string.find(life, token, 21, true) == 21
  local runs = false
  if known and confirms and string.byte(life) == LEASED then
    runs = struct.unpack('>I6', life, 35) > now
    local flags = string.char(string.byte(life, 2) % PENDING)
    if runs then redis.call('HSET', K_LIVES, id, string.sub(life, 1, 1) .. flags .. string.sub(life, 3)) end
  elseif known and not confirms then
    local record = redis.call('HGET', K_JOBS, id)
    local job = record and open(id, record, life)
    if job and job.state == LEASED and (job.deadline > now or job.length >= FORGIVEN) then
      take_back(queue_of(job.queue), job)
    elseif job then
      forgive(queue_of(job.queue), job)
    end
  end
  answers[i - 3] = runs and '\1' or '\0'
end
if not confirms then upkeep() end
save()
publish()
return table.concat(answers)
