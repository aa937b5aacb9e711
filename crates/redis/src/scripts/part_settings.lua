
-- Puts new settings in the place of the old ones. Says whether the groups of the queue must be gathered (1) or scattered (2) now,
-- else 0.
local function set(q, config)
  local old = { fair = q.fair, count = q.count, per = q.per, burst = q.burst }
  q.paused_in, q.paused_out, q.paused_until, q.fair, q.max_jobs, q.max_bytes, q.max_leased, q.count, q.per, q.burst = nil
  settings(q, config)
  redis.call('HSET', K_QUEUE .. q.name, 'config', config, 'accepted', q.accepted)
  redis.call('ZADD', K_QUEUES, 0, q.name)
  if stored(q) == 0 then redis.call('ZADD', K_UNUSED, now, q.name) end
  if old.count ~= q.count or old.per ~= q.per or old.burst ~= q.burst then
    redis.call('HDEL', K_QUEUE .. q.name, 'level', 'at')
  end
  redis.call('HDEL', K_QUEUE .. q.name, 'underway_jobs', 'underway_bytes', 'underway_leased')
  wake(q, 1000)
  if q.fair and not old.fair then return 1 end
  if old.fair and not q.fair then return 2 end
  return 0
end
