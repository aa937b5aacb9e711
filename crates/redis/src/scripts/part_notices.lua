
-- What happens is published while somebody watches: the process that calls (ARGV[2] begins with '1'), or another one (K_META
-- watch). Read with it is whose store this is (the rest of ARGV[2]): nothing is to be written into one that was emptied or
-- replaced since it was opened. And what some scripts need beside it, for a field costs less than a command.
local notices = {}
local meta = redis.call('HMGET', K_META, 'store', 'watch', 'leases', 'armed')
if meta[1] ~= string.sub(ARGV[2], 2) then return { ok = 'GONE' } end
local watched = string.byte(ARGV[2]) == 49 or tonumber(meta[2] or 0) > now

local function notice(queue, id, event, by, note)
  if watched then
    notices[#notices + 1] = struct.pack('>I6c8BBc0Bc0I4c0', now, id, event, #queue, queue, #by, by, #note, note)
  end
end

local function publish()
  if #notices > 0 then
    redis.call('PUBLISH', K_EVENTS, table.concat(notices))
  end
end
