
-- One process at a time looks after a shard. It gets a sketch of the shard, which changes when the shard does.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the process   4 'walk', 'urgent' or 'over'   5 for how many
--       milliseconds it has the shard while it walks   6 and while it rests   7 the sketch of a shard with which there is nothing
--       to do
-- ->    1 if it is this process, else 0; the sketch, or nothing if the shard has too many queues for one; for how many milliseconds
--       another process has it; how many walks came to their end; how many queues may be forgotten

local STEPS = 3000
local HOUR = 3600000
local process, deed, walking, resting, clean = unpack(ARGV, 3, 7)

local function keep(how, length)
  redis.call('SET', K_AUDITOR, process .. ' ' .. how .. ' ' .. string.format('%.0f', now + length), 'PX', length)
end

local function sketch_of()
  if redis.call('ZCARD', K_QUEUES) > STEPS / 6 then return '' end
  local meta = redis.call('HMGET', K_META, 'id', 'leases')
  local sketch = {}
  local function add(number) sketch[#sketch + 1] = number or '' end
  add(meta[1])
  add(meta[2])
  add(redis.call('HLEN', K_JOBS))
  add(redis.call('HLEN', K_LIVES))
  add(redis.call('ZCARD', K_TIMERS))
  for _, name in ipairs(redis.call('ZRANGE', K_QUEUES, 0, -1)) do
    for _, part in ipairs(redis.call('HMGET', K_QUEUE .. name, 'config', unpack(COUNTS))) do add(part) end
    add(redis.call('ZCARD', K_DEAD .. name))
    add(redis.call('ZCARD', K_DONE .. name))
    add(redis.call('HLEN', K_KEYS_OF .. name))
    for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. name, 0, -1)) do
      add(class)
      add(redis.call('ZCARD', line_of({ name = name }, class)))
      add(redis.call('ZCARD', K_RING .. class .. ':' .. name))
    end
    if #sketch > STEPS then return '' end
  end
  return redis.sha1hex(table.concat(sketch, ' '))
end

local walks = redis.call('HGET', K_META, 'walks') or '0'
local holder, how, till = string.match(redis.call('GET', K_AUDITOR) or '', '^(%S+) (%S+) (%d+)$')
-- Who rests only keeps others from walking as well. What is urgent does not wait for that: it may be dead.
if holder and holder ~= process and (how == 'walk' or deed ~= 'urgent') then
  return { 0, '', string.format('%.0f', math.max(till - now, 0)), walks, 0 }
end
if deed == 'over' then
  walks = redis.call('HINCRBY', K_META, 'walks', 1)
  keep('rest', resting)
  return { 1, '', '0', walks, 0 }
end
local sketch = sketch_of()
if sketch ~= '' and sketch == clean then keep('rest', resting) else keep('walk', walking) end
return { 1, sketch, '0', walks, redis.call('ZCOUNT', K_UNUSED, '-inf', now - HOUR) }
