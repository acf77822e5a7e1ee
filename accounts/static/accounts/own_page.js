// What the pages of one's own account get from a script: passkeys, copy buttons, times of the reader's own clock.
import "../ironauth/show_password.js";
import { $, makePasskey, on, passkeysWork, texts, usePasskey } from "./passkeys.js";

// A new passkey: the options are in the page, the answer goes where a form sends it.
const making = document.querySelector("[data-make-passkey]");
if (making) {
  on(making, "submit", async () => {
    const { challenge_token, credential } = await makePasskey(JSON.parse(making.dataset.makePasskey));
    making.elements.challenge_token.value = challenge_token;
    making.elements.credential.value = JSON.stringify(credential);
    making.submit();
    return new Promise(() => {}); // the button stays as it is until the next page is there
  });
  making.hidden = !passkeysWork;
  if (passkeysWork) making.querySelector("[type=submit]").focus();
  else $("problem").textContent = texts.unsupported;
}

// A passkey as the proof that a form asks for: fills it in, and sends it.
for (const button of document.querySelectorAll("[data-use-passkey]")) {
  const form = button.form;
  button.hidden = !passkeysWork;
  on(button, "click", async () => {
    if (!form.reportValidity()) return;
    const { challenge_token, credential } = await usePasskey(JSON.parse(button.dataset.usePasskey));
    form.elements.proof_challenge_token.value = challenge_token;
    form.elements.proof_credential.value = JSON.stringify(credential);
    form.submit();
  });
}

// A button beside what is to be copied; that of recovery codes stands beside the one that saves them, and looks like it.
for (const shown of document.querySelectorAll("[data-copied]:not(main)")) {
  const row = shown.parentElement.querySelector(".row");
  const className = row ? "second copy" : "link copy";
  const button = Object.assign(document.createElement("button"), { type: "button", className, textContent: texts.copy });
  const status = Object.assign(document.createElement("span"), { className: "soft" });
  status.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(shown.dataset.copied.replaceAll(" ", shown.id === "codes-list" ? "\n" : ""));
      status.textContent = ` ${texts.copied}`;
    } catch {
      status.textContent = ` ${texts.uncopied}`;
    }
  });
  if (row) {
    row.prepend(button);
    row.append(status);
  } else shown.after(" ", button, status);
}

// In words, and in the person's own time zone; without one, in the browser's. The zone is named either way.
const parts = { year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", timeZoneName: "short" };
for (const time of document.querySelectorAll("time")) {
  let clock;
  try {
    clock = new Intl.DateTimeFormat(document.documentElement.lang, { ...parts, timeZone: time.dataset.zone });
  } catch {
    continue; // a zone that the browser does not know: the server's text names it already
  }
  time.textContent = clock.format(new Date(time.dateTime));
}
