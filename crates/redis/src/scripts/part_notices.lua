
-- What happens is published while somebody watches: the process that calls (ARGV[2] is '1'), or another one (K_META watch).
local notices = {}
local watched = ARGV[2] == '1'
  or tonumber(redis.call('HGET', K_META, 'watch') or 0) > now

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
