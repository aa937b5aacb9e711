
-- A page of a sorted set: members and scores in turn, after the given one, though it may be gone.
local function page(set, score, id, limit)
  if score == '' then return redis.call('ZRANGE', set, 0, limit - 1, 'WITHSCORES') end
  local from = redis.call('ZCOUNT', set, '-inf', '(' .. score)
  local till = from + redis.call('ZCOUNT', set, score, score)
  while from < till do
    local middle = math.floor((from + till) / 2)
    if redis.call('ZRANGE', set, middle, middle)[1] <= id then from = middle + 1 else till = middle end
  end
  return redis.call('ZRANGE', set, from, from + limit - 1, 'WITHSCORES')
end
