// Pushes two mails over HTTP, with nothing but Node: node http-producer.js QUEUE NAME
const [queue, name] = process.argv.slice(2);
if (!name) {
  console.error("usage: node http-producer.js QUEUE NAME");
  process.exit(2);
}
const address = process.env.AUXO_HTTP ?? "127.0.0.1:8000";

const mail = (text, how) => ({ payload: { to: name, text }, ...how });
const jobs = [
  // A key makes the job unique, and with `return` the push can be repeated: the answer is the same id.
  mail("welcome", { priority: 0, key: `welcome:${name}`, on_duplicate: "return" }),
  mail("how do you like it?", { delay: "1s", key: `reminder:${name}`, on_duplicate: "return" }),
];

try {
  const response = await fetch(`http://${address}/v1/queues/${encodeURIComponent(queue)}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(jobs),
    signal: AbortSignal.timeout(10_000),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${answer.code}: ${answer.message}`);
  for (const { ok, error } of answer.results) { // Each job of an array has its own answer.
    if (error) throw new Error(`${error.code}: ${error.message}`);
    console.log(ok.id);
  }
} catch (error) {
  console.error(`error: ${address}: ${error.cause?.message ?? error.message}`);
  process.exitCode = 1;
}
