// The admin's second step: a passkey's answer goes where a code goes, in a form.
import { $, on, passkeysWork, texts, usePasskey } from "./passkeys.js";

const form = $("passkey-form");

on(form, "submit", async () => {
  const { challenge_token, credential } = await usePasskey(JSON.parse(form.dataset.options));
  form.elements.challenge_token.value = challenge_token;
  form.elements.credential.value = JSON.stringify(credential);
  form.submit();
  return new Promise(() => {}); // the button stays as it is until the next page is there
});

form.hidden = !passkeysWork;
if (!$("id_code")) {
  if (passkeysWork) form.querySelector("[type=submit]").focus();
  else $("problem").textContent = texts.unsupported;
}
