// Works off mails with ioredis and Auxo's own commands: node resp-worker.js QUEUE [COUNT]
import Redis from "ioredis";
import { read, send, Unreadable } from "./mail.js";

const [queue, text = "Infinity"] = process.argv.slice(2);
const count = Number(text);
if (!queue || !(count > 0)) {
  console.error("usage: node resp-worker.js QUEUE [COUNT]");
  process.exit(2);
}
const address = process.env.AUXO_RESP ?? "127.0.0.1:7711";

function fail(error) {
  console.error(`error: ${address}: ${error.message}`);
  process.exit(1);
}

// ioredis would connect again and again, and repeat what was not answered. A lease whose answer was lost is nobody's until
// its deadline: ending, and being started again by whatever watches over us, is plain and does no harm.
const auxo = new Redis(`redis://${address}`, { retryStrategy: null });
auxo.on("error", fail);

// RESP 2 has no maps: an answer is a list of names and values.
const fields = (list) => Object.fromEntries(list.flatMap((name, at) => (at % 2 ? [] : [[name, list[at + 1]]])));

async function work(job) {
  try {
    await send(read(job.payload), Number(job.attempt));
    return ["ack"];
  } catch (error) {
    // Unreadable ones wait for a person, others for their next try, by the policy of the job.
    const [outcome, word] = error instanceof Unreadable ? ["bury", "buried"] : ["fail", "again"];
    console.error(`${word}: ${error.message}`);
    return [outcome, "error", error.message];
  }
}

async function settle(job, outcome) {
  try {
    await auxo.call("AUXO.SETTLE", job.token, ...outcome);
  } catch (error) {
    if (!error.message.startsWith("LEASE_LOST")) throw error;
    console.error(`lost: ${job.id}`); // It took longer than its ttr: somebody else has the job, and nothing was changed.
  }
}

try {
  for (let done = 0; done < count; ) {
    const jobs = await auxo.call("AUXO.LEASE", "WAIT", "30s", "FROM", queue);
    for (const job of jobs.map(fields)) {
      await settle(job, await work(job));
      done += 1;
    }
  }
  auxo.disconnect();
} catch (error) {
  fail(error);
}
