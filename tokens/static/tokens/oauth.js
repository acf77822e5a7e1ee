// A passkey's answer goes where a password or a code goes, in a form.
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
  const json = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(json.detail || texts.offline);
  return json;
}

on(form, "submit", async () => {
  const { challenge_token, credential } = await usePasskey(await options());
  form.elements.challenge_token.value = challenge_token;
  form.elements.credential.value = JSON.stringify(credential);
  form.submit();
  return new Promise(() => {}); // the button stays as it is until the next page is there
});

form.hidden = !passkeysWork;
if (!$("email") && !$("code")) {
  if (passkeysWork) form.querySelector("[type=submit]").focus();
  else $("problem").textContent = texts.unsupported;
}
