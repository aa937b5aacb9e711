// What is measured around the work of a peer, and how it is printed: one line of JSON, with the names that
// `auxo-bench redis-…` reads.
import { performance } from 'node:perf_hooks';

/** Seconds of CPU that the Redis server has used, all its threads, children not. */
async function redisCpu(redis) {
  const info = await redis.info('cpu');
  const seconds = (name) => Number(new RegExp(`^${name}:(.*)$`, 'm').exec(info)[1]);
  return seconds('used_cpu_user') + seconds('used_cpu_sys');
}

/** Bytes that the Redis server has allocated. */
export async function redisMemory(redis) {
  const info = await redis.info('memory');
  return Number(/^used_memory:(.*)$/m.exec(info)[1]);
}

/** Measures from now on; the answer ends it and says what `jobs` jobs took. */
export async function watch(redis) {
  const server = await redisCpu(redis);
  const client = process.cpuUsage();
  const begin = performance.now();
  return async (jobs) => {
    const seconds = (performance.now() - begin) / 1e3;
    const { user, system } = process.cpuUsage(client);
    return {
      jobs,
      seconds,
      client_cpu_seconds: (user + system) / 1e6,
      redis_cpu_seconds: (await redisCpu(redis)) - server,
    };
  };
}

/** How a list of milliseconds is spread. */
export function spread(times) {
  const sorted = [...times].sort((a, b) => a - b);
  const part = (share) => sorted[Math.floor((sorted.length - 1) * share)];
  return {
    jobs: sorted.length,
    p50_ms: part(0.5),
    p99_ms: part(0.99),
    max_ms: part(1),
    early: sorted.filter((time) => time < 0).length,
  };
}

/** Prints what a peer did on a line. */
export function report(peer, line, figures) {
  console.log(JSON.stringify({ peer, line, ...figures }));
}
