// A passkey's answer goes where a password or a code goes, in a form.
import "../ironauth/show_password.js";
import { $, on, passkeysWork, texts, usePasskey } from "../accounts/passkeys.js";

const form = $("passkey-form");

async function options() {
  const { ask, ticket } = form.dataset;
  let answer;
  try {
    answer = await fetch(`/api/v1/access/${ask}/options`, {
      method: "POST",
      credentials: "omit",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(ticket ? { mfa_token: ticket } : {}),
    });
  } catch {
    throw new Error(texts.offline);
  }
  // The API's own sentence is English.
  if (!answer.ok) throw new Error({ 401: texts.late, 429: texts.busy, 503: texts.busy }[answer.status] ?? texts.offline);
  return answer.json().catch(() => { throw new Error(texts.offline); });
}

function send({ challenge_token, credential }) {
  const keeps = document.querySelector("form:not(#passkey-form) [name=keep_device]"); // one box for both ways
  if (keeps) form.elements.keep_device.checked = keeps.checked;
  form.elements.challenge_token.value = challenge_token;
  form.elements.credential.value = JSON.stringify(credential);
  form.submit();
}

// Passkeys among what the browser suggests for the address (conditional mediation). The page brings the challenge, so
// that opening it asks the server for nothing; where the address is typed later, a new one is asked for.
const FRESH_MS = 270_000; // of the five minutes that a challenge is good for
let since = Date.now();
let given = brought();
let waiting; // ends the request that waits: a browser runs one at a time

function brought() {
  const [rpId, challenge_token, challenge] = form.dataset.autofill?.split(" ") ?? [];
  return challenge && { challenge_token, publicKey: { rpId, challenge, userVerification: "required" } };
}

const isOld = () => Date.now() - since > FRESH_MS;

async function suggest() {
  if (!given || !(await window.PublicKeyCredential?.isConditionalMediationAvailable?.())) return;
  waiting?.abort();
  waiting = new AbortController();
  const { signal } = waiting;
  try {
    if (isOld()) {
      since = Date.now();
      given = await options();
    }
    send(await usePasskey(given, { mediation: "conditional", signal }));
  } catch {
    // None was picked, or none can be: the button is there, and says why.
  }
}

on(form, "submit", async () => {
  waiting?.abort();
  try {
    send(await usePasskey(await options()));
  } catch (error) {
    suggest();
    throw error;
  }
  return new Promise(() => {}); // the button stays as it is until the next page is there
});

suggest();
for (const used of ["focus", "pointerdown"]) {
  document.querySelector("[autocomplete~=webauthn]")?.addEventListener(used, () => {
    if (isOld()) suggest();
  });
}

form.hidden = !passkeysWork;
if (!$("email") && !$("password") && !$("code")) {
  if (passkeysWork) form.querySelector("[type=submit]").focus();
  else $("problem").textContent = texts.unsupported;
}
