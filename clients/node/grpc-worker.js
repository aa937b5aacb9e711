// Works off mails in gRPC's Work stream, several at once: node grpc-worker.js QUEUE [COUNT]
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { read, send, Unreadable } from "./mail.js";

const [queue, text = "Infinity"] = process.argv.slice(2);
const count = Number(text);
if (!queue || !(count > 0)) {
  console.error("usage: node grpc-worker.js QUEUE [COUNT]");
  process.exit(2);
}
const address = process.env.AUXO_HTTP ?? "127.0.0.1:8000";
const file = fileURLToPath(new URL("../../crates/proto/proto/auxo/v1/auxo.proto", import.meta.url));
const { auxo } = grpc.loadPackageDefinition(loader.loadSync(file, { longs: String }));
const workers = new auxo.v1.Workers(address, grpc.credentials.createInsecure());

const AT_ONCE = 4;
let given = Math.min(AT_ONCE, count);
let settled = 0;

async function work({ job, token }) {
  try {
    await send(read(job.payload), job.attempt);
    return { token, ack: {} };
  } catch (error) {
    const [outcome, word] = error instanceof Unreadable ? ["bury", "buried"] : ["fail", "again"];
    console.error(`${word}: ${error.message}`);
    return { token, [outcome]: { error: error.message } };
  }
}

const stream = workers.work();
stream.on("data", ({ jobs = [], settled: results = [] }) => {
  for (const leased of jobs) work(leased).then((settle) => stream.write({ settle: [settle] }));
  for (const { error } of results) {
    if (error) console.error(`lost: ${error.message}`); // It took longer than its ttr; nothing was changed.
    settled += 1;
    if (given < count) {
      given += 1;
      stream.write({ credit: 1 }); // One is through: one more may come.
    }
  }
  if (settled >= count) stream.end();
});
// What the stream held is given back by the server, at once and without a failure counted.
function fail(reason) {
  console.error(`error: ${address}: ${reason}`);
  process.exit(1);
}
stream.on("error", (error) => fail(error.message));
stream.on("end", () => (settled < count ? fail("the server stops") : workers.close()));
stream.write({ start: { queues: [queue], worker: `node-${process.pid}` }, credit: given });
