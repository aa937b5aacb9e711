
-- Mends what an audit found, if it is still so: a job is put where its life says, and taken out of where it does not belong.
-- No job changes its state.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store
--       then for each find: 'job' or a set as strays.lua names it, queue, priority, group, and the member
-- ->    how much was mended

local function repair_job(id)
  local record = redis.call('HGET', K_JOBS, id)
  if not record then return 0 end
  local job = open(id, record, redis.call('HGET', K_LIVES, id))
  local _, mended = check(job, redis.call('ZSCORE', K_TIMERS, id), true)
  return mended
end

local function remove(place, member)
  if belongs(place, member) then return 0 end
  if place.kind == 'group' then
    leave_group(place.q, place.class, place.group, member)
    return 1
  end
  local hash = place.kind == 'lives' or place.kind == 'keys'
  local gone = redis.call(hash and 'HDEL' or 'ZREM', place.key, member)
  if place.kind == 'line' and redis.call('EXISTS', place.key) == 0 then
    redis.call('ZREM', K_CLASSES .. place.queue, place.class)
  end
  return gone
end

local mended = 0
for i = 3, #ARGV, 5 do
  local kind, queue, class, group, member = unpack(ARGV, i, i + 4)
  if kind == 'job' then
    mended = mended + repair_job(member)
  else
    mended = mended + remove(place_of(kind, queue, class, group), member)
  end
end
return mended
