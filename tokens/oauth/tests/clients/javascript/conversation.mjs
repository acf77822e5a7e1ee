// The program's side of the conversation that clients/__init__.py describes.
import { createInterface } from "node:readline";
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto; // Node.js 18 has it, under another name
globalThis.CryptoKey ??= webcrypto.CryptoKey;

const lines = createInterface({ input: process.stdin, terminal: false })[Symbol.asyncIterator]();

/** What the other side says next; undefined when it has hung up. */
export async function hear() {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
}

export function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Send the person's browser to an address; where at the client it ended. */
export async function visit(url, decision = "allow") {
  say({ visit: String(url), decision });
  return new URL(await hear());
}

/** Let the person sign out at the provider; the logout token that the client got. */
export async function signOut() {
  say({ sign_out: true });
  return await hear();
}

export function passed(step) {
  say({ passed: step });
}

/** Run the program; whatever it throws is its end, told in full. */
export async function run(program) {
  try {
    await program(await hear());
    process.exit(0);
  } catch (error) {
    console.error(error, error?.cause, error?.response?.status);
    process.exit(1);
  }
}

export function assert(truth, what) {
  if (!truth) throw new Error(`not so: ${what}`);
}

/** The error that was thrown, which has to be one: by code, by the server's word for it, or by a part of its message. */
export async function refused(promise, expected) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    const words = [error.code, error.error, error.message, error.cause?.code, error.cause?.message].map(String);
    assert(words.some((word) => word.includes(expected)), `${expected} among ${JSON.stringify(words)}`);
    return error;
  }
  throw new Error(`not refused (${expected}): ${JSON.stringify(value)}`);
}

const BOUND_MS = 5_500; // IRONAUTH_L1_MAX_STALE_S, and a request's time: another worker may have looked before

/** Ask until it is so, no longer than another worker may believe what it saw before. */
export async function soon(question, what) {
  for (const end = Date.now() + BOUND_MS; Date.now() < end; ) {
    if (await question()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`not so in time: ${what}`);
}
