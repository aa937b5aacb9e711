// Pushes two mails with ioredis and Auxo's own commands: node resp-producer.js QUEUE NAME
import Redis from "ioredis";

const [queue, name] = process.argv.slice(2);
if (!name) {
  console.error("usage: node resp-producer.js QUEUE NAME");
  process.exit(2);
}
const address = process.env.AUXO_RESP ?? "127.0.0.1:7711";

function fail(error) {
  console.error(`error: ${address}: ${error.message}`);
  process.exit(1);
}

// ioredis would connect again and again. A program that somebody runs by hand had better say that there is no server.
const auxo = new Redis(`redis://${address}`, { retryStrategy: null });
auxo.on("error", fail);

function push(text, ...fields) {
  const mail = JSON.stringify({ to: name, text });
  return auxo.call("AUXO.PUSH", queue, mail, "key", `${text}:${name}`, "on_duplicate", "return", ...fields);
}

try {
  // An answer is a list of names and values; the job's id is behind "id".
  for (const answer of [await push("welcome", "priority", 0), await push("how do you like it?", "delay", "1s")]) {
    console.log(answer[answer.indexOf("id") + 1]);
  }
  auxo.disconnect();
} catch (error) {
  fail(error);
}
