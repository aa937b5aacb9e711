
-- One job, by its id or by its key.
--
-- KEYS  1 the root of the shard   2 one that is never there
-- ARGV  1 the time, in tests   2 nothing   3 the id, or nothing   4 the queue   5 the key
-- ->    the time, and id, record, life and score; no more than the time if there is none

local id = ARGV[3]
if id == '' then id = redis.call('HGET', K_KEYS_OF .. ARGV[4], ARGV[5]) end
local record = id and redis.call('HGET', K_JOBS, id)
if not record then return { tostring(now) } end
local life = redis.call('HGET', K_LIVES, id)
local job = open(id, record, life)
local score = job.state == WAITING and redis.call('ZSCORE', line_of({ name = job.queue }, job.priority), id)
return { tostring(now), id, record, life or '', score or '' }
