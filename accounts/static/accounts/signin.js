import { begin, open, Problem } from "./account.js";
import { $, on, passkeysWork, usePasskey } from "./passkeys.js";

let ticket = null; // of a right password, while the second factor is asked for

// A path of this site, whatever somebody wrote into the address.
function destination() {
  const home = "/account/security";
  try {
    const wanted = new URL(new URLSearchParams(location.search).get("next") || home, location.origin);
    return wanted.href.startsWith(`${location.origin}/`) ? wanted.href : home; // whole: "//host" is a path, and a site
  } catch {
    return home;
  }
}

function show(step) {
  $("first").hidden = step !== "first";
  $("second").hidden = step !== "second";
  const input = $(step === "first" ? "email" : "code");
  (input.closest("form").hidden ? $(`${step}-title`) : input).focus();
}

function startAgain() {
  ticket = null;
  $("password").value = $("code").value = "";
  show("first");
}

// What a refusal asks for is a link away, right below where the refusal is shown.
function offer(code) {
  $("ask-password").hidden = code !== "password_change_required";
  $("ask-verification").hidden = code !== "email_not_verified";
  document.querySelector("main > section:not([hidden]) [role=alert]")?.after($("ask-password"), $("ask-verification"));
}

async function finish(path, body) {
  offer(null);
  try {
    await open(path, { ...body, transport: "cookie" });
  } catch (problem) {
    if (problem instanceof Problem && problem.code === "mfa_required") return askForMore(problem.body);
    offer(problem.code);
    throw problem;
  }
  location.replace(destination());
  return new Promise(() => {}); // the button stays as it is until the next page is there
}

function askForMore({ mfa_token, methods }) {
  ticket = mfa_token;
  $("code-form").hidden = !methods.some((method) => method !== "passkey");
  $("second-passkey").hidden = !passkeysWork || !methods.includes("passkey");
  show("second");
}

// Do what needs the ticket; once that is no good any more, the sign-in begins again with the password.
async function withTicket(act) {
  try {
    return await act();
  } catch (problem) {
    if (problem.code !== "invalid_mfa_token") throw problem;
    startAgain();
    $("first-problem").textContent = $("second").dataset.late; // where the person is by now
  }
}

on($("password-form"), "submit", () =>
  finish("/signin", { email: $("email").value, password: $("password").value }));
on($("passkey"), "click", async () =>
  finish("/signin/passkey", await usePasskey(await open("/signin/passkey/options", {}))));
on($("code-form"), "submit", () =>
  withTicket(() => finish("/signin/mfa", { mfa_token: ticket, code: $("code").value })));
on($("second-passkey"), "click", () => withTicket(async () => {
  const answer = await usePasskey(await open("/signin/mfa/options", { mfa_token: ticket }));
  return finish("/signin/mfa", { mfa_token: ticket, ...answer });
}));
on($("again"), "click", startAgain);

$("passkey").hidden = document.querySelector(".or").hidden = !passkeysWork;
begin();
$("email").focus();
