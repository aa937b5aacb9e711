
-- Which commands this Redis does not know: they were renamed or switched off.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   then the commands
-- ->    those that it does not know

local unknown = {}
for i = 3, #ARGV do
  -- Without arguments most do nothing, and the others only tell something.
  local answer = redis.pcall(ARGV[i])
  local error = string.lower(type(answer) == 'table' and answer.err or '')
  -- As Redis says it, and as Valkey does.
  if string.find(error, 'unknown redis command', 1, true) or string.find(error, 'unknown command', 1, true) then
    unknown[#unknown + 1] = ARGV[i]
  end
end
return unknown
