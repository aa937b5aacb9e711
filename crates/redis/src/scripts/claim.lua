
-- One process at a time looks after a shard. It gets a sketch of the shard, which changes when the shard does.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 who asks, see part_store   3 the process   4 for how many milliseconds
-- ->    1 if it is this process, else 0; the sketch, or nothing if the shard has too many queues for one

local STEPS = 3000

local holder = redis.call('GET', K_AUDITOR)
if holder and holder ~= ARGV[3] then return { 0, '' } end
redis.call('SET', K_AUDITOR, ARGV[3], 'PX', ARGV[4])
if redis.call('ZCARD', K_QUEUES) > STEPS / 6 then return { 1, '' } end
local meta = redis.call('HMGET', K_META, 'id', 'leases')
local sketch = {}
local function add(number) sketch[#sketch + 1] = number or '' end
add(meta[1])
add(meta[2])
add(redis.call('HLEN', K_JOBS))
add(redis.call('HLEN', K_LIVES))
add(redis.call('ZCARD', K_TIMERS))
for _, name in ipairs(redis.call('ZRANGE', K_QUEUES, 0, -1)) do
  for _, count in ipairs(redis.call('HMGET', K_QUEUE .. name, unpack(COUNTS))) do add(count) end
  add(redis.call('ZCARD', K_DEAD .. name))
  add(redis.call('ZCARD', K_DONE .. name))
  add(redis.call('HLEN', K_KEYS_OF .. name))
  for _, class in ipairs(redis.call('ZRANGE', K_CLASSES .. name, 0, -1)) do
    add(class)
    add(redis.call('ZCARD', line_of({ name = name }, class)))
    add(redis.call('ZCARD', K_RING .. class .. ':' .. name))
  end
  if #sketch > STEPS then return { 1, '' } end
end
return { 1, redis.sha1hex(table.concat(sketch, ' ')) }
