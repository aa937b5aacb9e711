
-- How a job is packed; record.rs reads and writes the same. Numbers are big-endian, times are milliseconds.
--
-- A record, in K_JOBS: created:6 (BY_ID: the id says it; AT_ONCE: so it does, and then the job was due) expires:6 (0 is never),
-- and then what the client said:
--   head:4 (its length without the payload) priority:4 ttr:6 max_attempts:4 queue:1+ flags:1
--   [1: retention:6] [2: window:6 key:2+] [4: group:2+] [8: backoff:2+] and what no script reads, then the payload.
-- A life, in K_LIVES, from the first thing on that happens to a job after its push:
--   state:1 flags:1 attempt:4 failures:4 vanished:4 due:6 counter:6 nonce:8 deadline:6 length:6 size:4 queue:1+
--   worker:1+ error:4+ progress:4+ reason:1 ended:6 kept:6 held:6 result:4+ moments:1 and the moments of its timeline,
--   each event:1 at:6 by:1+ note:4+; the push itself is not among them, it is the time of creation.
local BY_ID, AT_ONCE = 281474976710654, 281474976710655
-- The time from which ids count, how many milliseconds they have room for, and how many of them a millisecond has.
local IDS_BEGIN, IDS_LAST, IDS_PER_MS = 1735689600000, 2198754820096, 4096
-- The backoff of a job whose record has none; record.rs has the same. These are constants of the format: a default of the product
-- may change, what lies in a store may not.
local BACKOFF_BASE, BACKOFF_FACTOR, BACKOFF_CAP, BACKOFF_JITTER = 1000, 2, 3600000, 1
local WAITING, LEASED, DEAD, DONE = 0, 1, 2, 3
local FRONT, CANCEL, ERROR, PROGRESS, RESULT, RICH = 1, 2, 4, 8, 16, 32
-- A lease of which nobody knows yet whether the replicas have it: its token is not handed out before that.
local PENDING = 64
local HEAD = '>BBI4I4I4I6I6c8I6I6I4Bc0'
local TAIL = '>Bc0I4c0I4c0BI6I6I6I4c0B'
local NOBODY = '\0\0\0\0\0\0\0\0'
local MOMENTS = 49
-- Stands behind all timers.
local LAST = string.rep('-', 72)
-- The events that scripts know of, as record.rs numbers them.
local LEASE, TAKE, ACK, RETRY, FAIL, RELEASE, SNOOZE, BURY = 3, 4, 5, 6, 7, 8, 9, 10
local VANISH, EXHAUST, EXPIRE, KICK, RESCHEDULE = 11, 12, 13, 14, 15
local PUSH, REPLACE, CANCELLED, DELETE = 1, 16, 17, 18
local FAILED, VANISHED, BURIED, EXPIRED = 1, 2, 3, 4

local function has(flags, flag)
  return flags % (flag + flag) >= flag
end

-- An id is a number below 2^53 in 8 bytes: milliseconds since 2025 times 4096, and a count; see core's id.rs.
local function number_of(id)
  return (struct.unpack('>I8', id))
end

-- The first id of a millisecond. A time outside of what ids have room for counts as its end.
local function first_id(at)
  return math.min(math.max(at - IDS_BEGIN, 0), IDS_LAST) * IDS_PER_MS
end

-- The time at which an id was given, while ids run with the clock.
local function time_of(id)
  return IDS_BEGIN + math.floor(number_of(id) / IDS_PER_MS)
end

-- A job with its record open; `life` is nil until something has happened to it.
local function open(id, record, life)
  local job = { id = id, record = record }
  local at
  job.created, job.expires, job.head, job.priority, job.ttr, job.max, job.queue, job.flags, at =
    struct.unpack('>I6I6I4I4I6I4Bc0B', record)
  if job.created >= BY_ID then job.created = time_of(id) end
  job.size = #record - 12 - job.head
  job.retention, job.window = 0, 0
  if job.flags > 0 then
    if has(job.flags, 1) then job.retention, at = struct.unpack('>I6', record, at) end
    if has(job.flags, 2) then job.window, job.key, at = struct.unpack('>I6I2c0', record, at) end
    if has(job.flags, 4) then job.group, at = struct.unpack('>I2c0', record, at) end
    if has(job.flags, 8) then job.backoff = struct.unpack('>I2c0', record, at) end
  end
  if life then
    local flags
    job.state, flags, job.attempt, job.failures, job.vanished, job.due, job.counter, job.nonce, job.deadline, job.length,
      job.size, job.queue, at = struct.unpack(HEAD, life)
    job.worker, job.error, job.progress, job.reason, job.ended, job.kept, job.held, job.result, job.moments, at =
      struct.unpack(TAIL, life, at)
    job.timeline = string.sub(life, at)
    job.front, job.cancel, job.pending = has(flags, FRONT), has(flags, CANCEL), has(flags, PENDING)
    if not has(flags, ERROR) then job.error = nil end
    if not has(flags, PROGRESS) then job.progress = nil end
    if not has(flags, RESULT) then job.result = nil end
  else
    job.state, job.attempt, job.failures, job.vanished, job.due = WAITING, 0, 0, 0, nil
    job.counter, job.nonce, job.deadline, job.length, job.worker = 0, NOBODY, 0, 0, ''
    job.reason, job.ended, job.kept, job.held, job.moments, job.timeline = 0, 0, 0, 0, 0, ''
  end
  return job
end

-- Whether a lease that ends well must look at the record: for a key, or to be kept.
local function rich(job)
  return job.flags % 4 > 0
end

local function pack(job)
  local flags = (job.front and FRONT or 0) + (job.cancel and CANCEL or 0) + (job.error and ERROR or 0)
    + (job.progress and PROGRESS or 0) + (job.result and RESULT or 0) + (rich(job) and RICH or 0)
    + (job.state == LEASED and job.pending and PENDING or 0)
  local error, progress, result = job.error or '', job.progress or '', job.result or ''
  return struct.pack(HEAD, job.state, flags, job.attempt, job.failures, job.vanished, job.due or 0, job.counter, job.nonce,
    job.deadline, job.length, job.size, #job.queue, job.queue)
    .. struct.pack(TAIL, #job.worker, job.worker, #error, error, #progress, progress, job.reason, job.ended, job.kept,
      job.held, #result, result, job.moments)
    .. job.timeline
end

local function moment(event, by, note)
  return struct.pack('>BI6Bc0I4c0', event, now, #by, by, #note, note)
end

-- Adds to the timeline, which keeps the push and the newest moments.
local function remember(job, event, by, note)
  if job.moments >= MOMENTS then
    local _, _, _, _, rest = struct.unpack('>BI6Bc0I4c0', job.timeline)
    job.timeline = string.sub(job.timeline, rest)
  else
    job.moments = job.moments + 1
  end
  job.timeline = job.timeline .. moment(event, by, note)
end
