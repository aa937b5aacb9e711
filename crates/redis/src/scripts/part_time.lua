
-- The time is Redis' own. Only tests send one: ARGV[1] is empty in production.
local now, ceiling, micros
if ARGV[1] == '' then
  local time = redis.call('TIME')
  micros = time[2] % 1000
  now = time[1] * 1000 + (time[2] - micros) / 1000
  -- A delay counts from the end of a millisecond that has begun, so that no job is early.
  ceiling = micros == 0 and now or now + 1
else
  now = tonumber(ARGV[1])
  ceiling, micros = now, 0
end
