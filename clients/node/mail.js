// The work itself, the same behind every protocol: a job is a mail in JSON, and sending it is printing it.
import { setTimeout as sleep } from "node:timers/promises";

// The job is no mail, and no further try will make it one.
export class Unreadable extends Error {}

export function read(payload) {
  let mail;
  try {
    mail = JSON.parse(payload);
  } catch (error) {
    throw new Unreadable(`not a mail: ${error.message}`);
  }
  if (typeof mail?.to !== "string" || typeof mail.text !== "string") {
    throw new Unreadable("not a mail: to and text are needed");
  }
  return mail;
}

// `takes` (seconds) and `fails` (tries) stand for what real work does: it lasts, and it goes wrong at first.
export async function send({ to, text, takes = 0, fails = 0 }, attempt) {
  await sleep(takes * 1000);
  if (attempt <= fails) throw new Error(`the mailbox of ${to} is busy`);
  console.log(`${to}: ${text}`);
}
