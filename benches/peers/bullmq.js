// BullMQ on a Redis, one line of the comparison at a time: `node bullmq.js URL LINE [--seconds S] …`, see README.md.
// The Redis is emptied first. Jobs are removed when they are done: BullMQ's fastest setting, and what Auxo does.
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

import { redisMemory, report, spread, watch } from './measure.js';

const BATCH = 100;
/** Calls of `add` that are open at once. */
const OPEN = 64;
/** One hundred bytes of JSON. */
const PAYLOAD = 'x'.repeat(98);
/** How long the just-in-time compiler sees the code before the clock starts, and how many jobs that is for a drain. */
const WARM_UP = { ms: 1_000, jobs: 5_000 };
/** How far a producer may be ahead of its worker. */
const AHEAD = 1_000;
/** Jobs per second, to see how soon each is handled. */
const PACE = 1_000;
/** Delayed jobs fall due within this time, which begins this long from now. */
const DUE = { within: 10_000, from: 2_000 };

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '2' },
    'in-flight': { type: 'string', default: '4' },
    concurrency: { type: 'string', default: '100' },
    jobs: { type: 'string' },
  },
});
const [url, line] = positionals;
const span = Number(values.seconds) * 1e3;
const inFlight = Number(values['in-flight']);
const concurrency = Number(values.concurrency);

const redis = new Redis(url);
const connection = { url, maxRetriesPerRequest: null };
const queue = new Queue('bench', {
  connection,
  defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
});

/** So many callers at once, each repeating a step as long as there is a reason to. */
async function repeat(callers, goOn, step) {
  const caller = async () => {
    while (goOn()) await step();
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

const until = (end) => () => performance.now() < end;

/** Adds jobs in batches, `make` answering each. */
async function fill(count, make) {
  let made = 0;
  await repeat(inFlight, () => made < count, async () => {
    const length = Math.min(BATCH, count - made);
    made += length;
    await queue.addBulk(Array.from({ length }, make));
  });
}

const job = () => ({ name: 'job', data: PAYLOAD });
const batch = () => queue.addBulk(Array.from({ length: BATCH }, job));

/** How fast a step adds `jobs` jobs each time, by so many callers. */
async function pushes(callers, jobs, step) {
  await repeat(callers, until(performance.now() + WARM_UP.ms), step);
  await redis.flushall();
  let added = 0;
  const stop = await watch(redis);
  await repeat(callers, until(performance.now() + span), async () => {
    await step();
    added += jobs;
  });
  return stop(added);
}

/** A running worker that counts what it has completed. */
async function work(handle) {
  const worker = new Worker('bench', handle, { connection, concurrency, autorun: false });
  await worker.waitUntilReady();
  const state = { completed: 0, close: () => worker.close() };
  let waiting;
  worker.on('completed', () => {
    state.completed += 1;
    if (state.completed === waiting?.count) waiting.resolve();
  });
  /** Waits until so many jobs are completed; one wait at a time. */
  state.reaches = (count) =>
    new Promise((resolve) => {
      if (state.completed >= count) resolve();
      else waiting = { count, resolve };
    });
  const fail = (error) => {
    console.error(error);
    process.exit(1);
  };
  worker.on('error', fail);
  worker.run().catch(fail);
  return state;
}

/** The lines of the comparison; each answers its figures. */
const lines = {
  /** Batches of a hundred. */
  bulk: () => pushes(inFlight, BATCH, batch),

  /** One job per call, many calls open. */
  single: () => pushes(OPEN, 1, () => queue.add('job', PAYLOAD)),

  /** A worker whose handler does nothing empties a queue. */
  async drain() {
    const count = WARM_UP.jobs + Number(values.jobs ?? span * 12);
    await fill(count, job);
    const worker = await work(async () => {});
    await worker.reaches(WARM_UP.jobs);
    const stop = await watch(redis);
    const before = worker.completed;
    await worker.reaches(count);
    return stop(count - before);
  },

  /** A producer and a worker at once, from add to completed. */
  async cycle() {
    const worker = await work(async () => {});
    let added = 0;
    let running = true;
    const producing = repeat(inFlight, () => running, async () => {
      if (added - worker.completed > AHEAD) return sleep(1);
      added += BATCH;
      await batch();
    });
    await sleep(WARM_UP.ms);
    const stop = await watch(redis);
    const before = worker.completed;
    await sleep(span);
    const figures = await stop(worker.completed - before);
    running = false;
    await producing;
    await worker.reaches(added);
    return figures;
  },

  /** From just before `add` until the handler has the job, at an even pace. */
  async latency() {
    const times = [];
    const worker = await work(async ({ data }) => {
      times.push(performance.now() - data.sent);
    });
    const adding = [];
    const paced = async (count) => {
      const begin = performance.now();
      for (let sent = 0; sent < count; ) {
        const due = Math.min(count, ((performance.now() - begin) * PACE) / 1e3);
        for (; sent < due; sent += 1) adding.push(queue.add('job', { sent: performance.now() }));
        await sleep(1);
      }
    };
    const warm = (WARM_UP.ms * PACE) / 1e3;
    const count = (span * PACE) / 1e3;
    await paced(warm + count);
    await Promise.all(adding);
    await worker.reaches(warm + count);
    return spread(times.slice(warm));
  },

  /** How late the handler has jobs that are delayed to random instants. */
  async lateness() {
    const count = Number(values.jobs ?? 10_000);
    const begin = Date.now() + DUE.from;
    // The delay counts from the timestamp: whole milliseconds, so that no rounding of ours makes a job early.
    await fill(count, () => {
      const timestamp = Date.now();
      const due = begin + Math.floor(Math.random() * DUE.within);
      return { name: 'job', data: { due }, opts: { timestamp, delay: due - timestamp } };
    });
    if (Date.now() > begin) throw new Error('adding the jobs took until the first were due');
    const late = [];
    const worker = await work(async ({ data }) => {
      late.push(Date.now() - data.due);
    });
    await worker.reaches(count);
    return spread(late);
  },

  /** What Redis needs for jobs that wait. */
  async memory() {
    const count = Number(values.jobs ?? 100_000);
    await batch();
    const before = await redisMemory(redis);
    await fill(count, job);
    return { jobs: count, bytes_per_job: ((await redisMemory(redis)) - before) / count };
  },
};

if (!url || !(line in lines)) {
  console.error(`usage: node bullmq.js URL ${Object.keys(lines).join('|')} [--seconds S] [--in-flight N]
       [--concurrency N] [--jobs N]; everything in that Redis is deleted`);
  process.exit(2);
}
const { version } = createRequire(import.meta.url)('bullmq/package.json');
await redis.flushall();
await queue.waitUntilReady();
report(`bullmq ${version}`, line, await lines[line]());
process.exit(0);
