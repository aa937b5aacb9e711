
-- Nothing is to be written into a store that was emptied or replaced since it was opened; ARGV[2] ends with its identity.
if redis.call('HGET', K_META, 'store') ~= string.sub(ARGV[2], 2) then return { ok = 'GONE' } end
