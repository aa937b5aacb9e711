// Pushes two mails over gRPC: node grpc-producer.js QUEUE NAME
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [queue, name] = process.argv.slice(2);
if (!name) {
  console.error("usage: node grpc-producer.js QUEUE NAME");
  process.exit(2);
}
const address = process.env.AUXO_HTTP ?? "127.0.0.1:8000";
const file = fileURLToPath(new URL("../../crates/proto/proto/auxo/v1/auxo.proto", import.meta.url));
// Ids stay below 2^53, which a number in JavaScript can hold; as text the fields of 64 bits are all the same.
const { auxo } = grpc.loadPackageDefinition(loader.loadSync(file, { longs: String }));
const jobs = new auxo.v1.Jobs(address, grpc.credentials.createInsecure());

const mail = (text, how) => ({
  queue,
  spec: {
    payload: Buffer.from(JSON.stringify({ to: name, text })),
    // The key makes the job unique, so a push whose answer was lost can be repeated: it answers the same id.
    key: `${text}:${name}`,
    onDuplicate: "ON_DUPLICATE_RETURN",
    ...how,
  },
});

try {
  const request = { jobs: [mail("welcome", { priority: 0 }), mail("how do you like it?", { delayMs: 1000 })] };
  const push = promisify(jobs.push.bind(jobs));
  const { results } = await push(request, new grpc.Metadata(), { deadline: Date.now() + 10_000 });
  for (const { ok, error } of results) { // Each job of a batch has its own answer.
    if (error) throw new Error(`${error.code}: ${error.message}`);
    console.log(ok.id);
  }
} catch (error) {
  console.error(`error: ${address}: ${error.message}`);
  process.exitCode = 1;
} finally {
  jobs.close();
}
