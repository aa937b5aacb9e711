// Pushes, reserves, releases, touches, buries and deletes with a package for beanstalkd's protocol: node beanstalkd-packages.js PACKAGE QUEUE
import assert from "node:assert/strict";

// Each package by the same few calls. Options are priority, delay and time to run, in the order of the protocol.
const PACKAGES = {
  async jackd(host, port) {
    const { default: Jackd } = await import("jackd");
    const client = await new Jackd().connect({ host, port });
    return {
      choose: (queue) => client.use(queue).then(() => client.watch(queue)),
      put: (text) => client.put(text, { priority: 0, delay: 0, ttr: 60 }),
      reserve: async () => {
        const { id, payload } = await client.reserve();
        return { id, text: payload.toString() };
      },
      release: (id) => client.release(id, { priority: 0, delay: 0 }),
      touch: (id) => client.touch(id),
      bury: (id) => client.bury(id, 0),
      delete: (id) => client.delete(id),
      close: () => client.quit(),
    };
  },

  async "node-beanstalk"(host, port) {
    const { Client } = await import("node-beanstalk");
    const client = new Client({ host, port });
    await client.connect();
    // What was refused is answered with false or null, and not thrown.
    const done = (answer) => assert(answer, "the server refused it");
    return {
      choose: (queue) => client.use(queue).then(() => client.watch(queue)),
      put: (text) => client.put(text, 60, 0, 0).then(({ id }) => id),
      reserve: async () => {
        const { id, payload } = await client.reserve();
        return { id, text: payload };
      },
      release: (id) => client.release(id, 0, 0).then(done),
      touch: (id) => client.touch(id).then(done),
      bury: (id) => client.bury(id, 0).then(done),
      delete: (id) => client.delete(id).then(done),
      close: () => client.disconnect(),
    };
  },

  async beanstalkd(host, port) {
    const { default: module } = await import("beanstalkd");
    const client = await new module.default(host, port).connect();
    return {
      choose: (queue) => client.use(queue).then(() => client.watch(queue)),
      put: (text) => client.put(0, 0, 60, text),
      reserve: async () => {
        const [id, payload] = await client.reserve();
        return { id, text: payload.toString() };
      },
      release: (id) => client.release(id, 0, 0),
      touch: (id) => client.touch(id),
      bury: (id) => client.bury(id, 0),
      delete: (id) => client.delete(id),
      close: () => client.quit(),
    };
  },
};

const [name, queue] = process.argv.slice(2);
if (!queue || !(name in PACKAGES)) {
  console.error(`usage: node beanstalkd-packages.js ${Object.keys(PACKAGES).join("|")} QUEUE`);
  process.exit(2);
}
const address = process.env.AUXO_BEANSTALK ?? "127.0.0.1:11300";
const colon = address.lastIndexOf(":");

try {
  const client = await PACKAGES[name](address.slice(0, colon), Number(address.slice(colon + 1)));
  await client.choose(queue);

  // Most versions of these packages keep an id as a number, whose 53 bits must hold all of it; here all of them do.
  const reserved = async (text) => {
    const job = await client.reserve();
    assert.equal(job.text, text);
    assert(Number.isSafeInteger(Number(job.id)), `JavaScript cannot hold the id ${job.id}`);
    return Number(job.id);
  };

  const ids = [];
  for (const text of ["again", "never", "done"]) ids.push(Number(await client.put(text)));
  // A job that was released comes back before those that were pushed after it.
  const again = await reserved("again");
  await client.release(again);
  assert.equal(await reserved("again"), again);
  await client.delete(again);
  const never = await reserved("never");
  await client.bury(never);
  const done = await reserved("done");
  await client.touch(done);
  await client.delete(done);
  assert.deepEqual([again, never, done], ids);
  await client.close();
} catch (error) {
  console.error(`error: ${address}: ${error.message}`);
  process.exit(1);
}
