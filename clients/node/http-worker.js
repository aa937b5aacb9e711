// Works off mails over HTTP, with nothing but Node, and keeps its lease however long one takes: node http-worker.js QUEUE [COUNT]
import { read, send, Unreadable } from "./mail.js";

const [queue, text = "Infinity"] = process.argv.slice(2);
const count = Number(text);
if (!queue || !(count > 0)) {
  console.error("usage: node http-worker.js QUEUE [COUNT]");
  process.exit(2);
}
const address = process.env.AUXO_HTTP ?? "127.0.0.1:8000";
// Short leases that are prolonged: work may take hours, and yet the job of a worker that died is somebody else's in seconds.
const LEASE = 3_000;

async function call(path, body) {
  const response = await fetch(`http://${address}/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(45_000), // More than the wait that is asked for.
  });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.message), { code: answer.code });
  return answer;
}

async function work(job) {
  // One that fails is no harm: the next may not, and a lease that is lost is found out when it is settled.
  const beats = setInterval(() => call("extend", { token: job.token }).catch(() => {}), LEASE / 3);
  try {
    // A payload that is no JSON comes as payload_base64, and is none of ours.
    await send(read(JSON.stringify(job.payload ?? null)), job.attempt);
    return { outcome: "ack" };
  } catch (error) {
    const [outcome, word] = error instanceof Unreadable ? ["bury", "buried"] : ["fail", "again"];
    console.error(`${word}: ${error.message}`);
    return { outcome, error: error.message };
  } finally {
    clearInterval(beats);
  }
}

try {
  for (let done = 0; done < count; ) {
    const { jobs } = await call("lease", { queues: [queue], wait: "30s", ttr: LEASE, worker: `node-${process.pid}` });
    for (const job of jobs) {
      const settled = call("settle", { token: job.token, ...(await work(job)) });
      await settled.catch((error) => {
        if (error.code !== "lease_lost") throw error;
        console.error(`lost: ${job.id}`); // Somebody else has the job by now, and nothing was changed.
      });
      done += 1;
    }
  }
} catch (error) {
  console.error(`error: ${address}: ${error.cause?.message ?? error.message}`);
  process.exitCode = 1;
}
