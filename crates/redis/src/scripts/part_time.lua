
-- The time is Redis' own. Only tests send one: ARGV[1] is empty in production.
local now, ceiling
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  -- A delay counts from the end of a millisecond that has begun, so that no job is early.
  ceiling = time[2] % 1000 == 0 and now or now + 1
else
  now = tonumber(ARGV[1])
  ceiling = now
end
