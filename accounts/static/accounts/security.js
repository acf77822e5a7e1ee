import { begin, call, signOffApplications } from "./account.js";
import { $, makePasskey, on, passkeysWork, usePasskey } from "./passkeys.js";

let factors = null; // what GET /mfa said last

// ---------------------------------------------------------------- asking who it is once more
let asked = null; // what the open dialog does with an answer

// Resolves with what came of `act` on what was typed; what `act` refuses is shown, and can be tried again. Rejects when
// the person gives up, and when a recent sign-in is needed first.
function ask({ password, code, passkey }, act) {
  const dialog = $("ask");
  for (const name of ["ask-password", "ask-password-text"]) $(name).hidden = !password;
  for (const name of ["ask-code", "ask-code-text"]) $(name).hidden = !code;
  $("ask-form").querySelector("[type=submit]").hidden = !password && !code;
  $("ask-passkey").hidden = !passkey || !passkeysWork;
  $("ask-password-input").required = Boolean(password);
  $("ask-code-input").required = Boolean(code);
  $("ask-password-input").value = $("ask-code-input").value = $("ask-problem").textContent = "";
  return new Promise((resolve, reject) => {
    let end = () => reject(new Error(""));
    // Not before it is closed: the same dialog may have to ask something else next.
    dialog.addEventListener("close", () => end(), { once: true });
    asked = async (given) => {
      try {
        const done = await act(await given());
        end = () => resolve(done);
      } catch (problem) {
        if (problem.code !== "step_up_required") throw problem;
        end = () => reject(problem);
      }
      dialog.close();
    };
    dialog.showModal();
  });
}

on($("ask-form"), "submit", () => asked(() => ({
  ...($("ask-password-input").required && { password: $("ask-password-input").value }),
  ...($("ask-code-input").required && { code: $("ask-code-input").value }),
})));
on($("ask-passkey"), "click", () => asked(async () => usePasskey(await call("POST", "/step-up/options", {}))));
$("ask-cancel").addEventListener("click", () => $("ask").close());

// Do what needs a recent sign-in, after asking for one where it is too long ago.
async function recently(act) {
  try {
    return await act();
  } catch (problem) {
    if (problem.code !== "step_up_required") throw problem;
  }
  const methods = factors.methods;
  if (!methods.length && !factors.has_password) { // nothing to type: sign in again, as the last time
    location.assign("/account/signin?next=/account/security");
    return new Promise(() => {});
  }
  const wanted = methods.length
    ? { code: methods.some((method) => method !== "passkey"), passkey: methods.includes("passkey") }
    : { password: true };
  await ask(wanted, (given) => call("POST", "/step-up", given));
  return act();
}

// Do what needs the password anyway.
const withPassword = (act) => recently(() => ask({ password: true }, act));

// ---------------------------------------------------------------- what there is
const day = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium" });
const minute = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });

function when(element, text, format) {
  element.dateTime = text;
  element.textContent = format.format(new Date(text));
}

function rows(list, template, items, fill) {
  list.replaceChildren(...items.map((item) => {
    const row = $(template).content.firstElementChild.cloneNode(true); // the fragment is empty once it is on the page
    fill((name) => row.querySelector(`[data-${name}]`), item);
    return row;
  }));
}

// What a row says while it is closed: `text`, or its word for what is set or not.
function say(state, text) {
  if (state) state.textContent = text === true ? state.dataset.set : text || state.dataset.none;
}

async function showFactors() {
  factors = await call("GET", "/mfa");
  say($("passkeys-state"), factors.passkeys.length);
  say($("totp-state"), factors.totp);
  say($("password-state"), factors.has_password);
  rows($("passkeys"), "passkey-row", factors.passkeys, (part, passkey) => {
    part("name").textContent = passkey.name;
    when(part("created"), passkey.created_at, day);
    if (passkey.last_used_at) {
      part("unused").hidden = true;
      part("is-used").hidden = false;
      when(part("used"), passkey.last_used_at, minute);
    }
    part("remove").setAttribute("aria-label", `${part("remove").textContent} ${passkey.name}`);
    on(part("remove"), "click", async () => {
      await recently(() => call("DELETE", `/mfa/passkeys/${passkey.id}`));
      await showFactors();
    });
    if (part("rename")) {
      part("rename").setAttribute("aria-label", `${part("rename").textContent} ${passkey.name}`);
      on(part("rename"), "click", () => {
        part("rename-form").hidden = !part("rename-form").hidden;
        part("new-name").value = passkey.name;
        part("new-name").focus();
      });
      on(part("rename-form"), "submit", async () => {
        await call("PATCH", `/mfa/passkeys/${passkey.id}`, { name: part("new-name").value });
        await showFactors();
      });
    }
  });
  if ($("no-password")) {
    $("no-password").hidden = factors.has_password;
    $("password-form").hidden = !factors.has_password;
  }
  $("no-passkeys").hidden = factors.passkeys.length > 0;
  $("passkey-form").hidden = !passkeysWork;
  $("totp-on").hidden = !factors.totp;
  $("totp-start").hidden = factors.totp || !$("totp-form").hidden;
  $("recovery").hidden = factors.methods.length === 0;
  $("recovery-left").textContent = factors.recovery_codes_left;
}

// What a person calls the device: browser and system, where the user agent is one of those everybody has. The names
// and the order in which they tell are those of tokens/sessions/user_agents.py.
const BROWSERS = {
  SamsungBrowser: "Samsung Internet", Edg: "Edge", EdgA: "Edge", EdgiOS: "Edge", OPR: "Opera", Firefox: "Firefox",
  FxiOS: "Firefox", CriOS: "Chrome", Chrome: "Chrome", Version: "Safari",
};
const SYSTEMS = {
  Windows: "Windows", iPhone: "iPhone", iPad: "iPad", Android: "Android", CrOS: "ChromeOS", Macintosh: "macOS",
  Linux: "Linux", X11: "Linux",
};

function deviceOf(agent) {
  const named = (names, end) => names[Object.keys(names).find((name) => agent.includes(name + end))];
  const known = [named(BROWSERS, "/"), named(SYSTEMS, "")].filter(Boolean);
  return agent.startsWith("Mozilla/") && known.length ? known.join(", ") : agent || "—";
}

async function showSessions() {
  const sessions = await call("GET", "/sessions");
  say($("sessions-state"), sessions.length);
  const others = $("end-others"); // none in a template of one's own that is older than this
  if (others) others.hidden = sessions.length < 2;
  rows($("sessions"), "session-row", sessions, (part, session) => {
    part("agent").textContent = deviceOf(session.user_agent);
    part("agent").title = session.user_agent;
    part("ip").textContent = session.ip || "—";
    part("current").hidden = !session.current;
    const application = part("application"); // none in a template of one's own that is older than this
    if (application && session.application) application.textContent = `${session.application}, `;
    when(part("used"), session.last_used_at, minute);
    part("end").setAttribute("aria-label", `${part("end").textContent} ${part("agent").textContent}`);
    on(part("end"), "click", async () => {
      await call("DELETE", `/sessions/${session.id}`);
      if (session.current) location.replace("/account/signin");
      else await showSessions();
    });
  });
}

if ($("end-others")) {
  on($("end-others"), "click", async () => {
    await call("DELETE", "/sessions");
    await showSessions();
  });
}

async function showApplications() {
  const list = $("applications");
  if (!list) return; // a template of one's own that is older than this list
  const consents = await call("GET", "/consents");
  say($("applications-state"), consents.length);
  rows(list, "application-row", consents, (part, consent) => {
    // What the page has no word for goes by its own name; what needs none has an empty one.
    const what = consent.scope.split(" ").map((scope) => list.getAttribute(`data-${scope}`) ?? scope).filter(Boolean);
    part("name").textContent = consent.name;
    part("what").textContent = what.map((word) => `, ${word}`).join("");
    when(part("since"), consent.since, day);
    part("remove").setAttribute("aria-label", `${part("remove").textContent} ${consent.name}`);
    on(part("remove"), "click", async () => {
      await call("DELETE", `/consents/${consent.client_id}`);
      await showApplications();
    });
  });
  $("no-applications").hidden = consents.length > 0;
}

async function showIdentities() {
  const card = $("identities-card");
  if (!card) return; // a template of one's own that is older than this list
  const { identities, providers } = await call("GET", "/identities");
  say($("identities-state"), identities.length);
  rows($("identities"), "identity-row", identities, (part, identity) => {
    part("name").textContent = identity.provider.name;
    if (identity.email) part("email").textContent = `${identity.email}. `;
    when(part("created"), identity.created_at, day);
    when(part("used"), identity.last_used_at, minute);
    part("remove").setAttribute("aria-label", `${part("remove").textContent} ${identity.provider.name}`);
    on(part("remove"), "click", async () => {
      await recently(() => call("DELETE", `/identities/${identity.id}`));
      await showIdentities();
    });
  });
  $("providers").replaceChildren(...providers.map((provider) => {
    const words = $("providers").dataset.connect.replace("{name}", provider.name);
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "second", textContent: words });
    on(button, "click", async () => {
      const { url } = await recently(() => call("POST", "/identities", { provider: provider.slug }));
      location.assign(url);
    });
    return button;
  }));
  card.hidden = !identities.length && !providers.length;
}

async function showLanguage() {
  const choice = $("language");
  if (!choice) return; // a template of one's own that is older than this choice
  choice.value = (await call("GET", "/me/language")).language;
  say($("language-state"), choice.value && choice.selectedOptions[0].textContent);
}

if ($("language-form")) {
  on($("language-form"), "submit", async () => {
    await call("PUT", "/me/language", { language: $("language").value });
    location.reload(); // in that language
  });
}

// ---------------------------------------------------------------- recovery codes: shown once
function showCodes(codes) {
  if (!codes?.length) return;
  $("codes-list").replaceChildren(...codes.map((code) => {
    const item = document.createElement("li");
    item.append(Object.assign(document.createElement("code"), { textContent: code }));
    return item;
  }));
  $("codes").hidden = false;
  $("codes-title").focus();
}

// Copy a text on a click, and say that it is done, or what to do where the browser does not allow it.
function copies(button, status, text) {
  on(button, "click", async () => {
    const { done, refused } = button.dataset;
    await navigator.clipboard.writeText(text()).catch(() => { throw new Error(refused); });
    status.textContent = done;
  });
}

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type })); // until the page is left: browsers differ in when they have read it
  link.download = name;
  link.click();
}

const codesShown = () => [...$("codes-list").children].map((item) => item.textContent).join("\n");
copies($("codes-copy"), $("codes-status"), codesShown);
if ($("codes-download")) {
  on($("codes-download"), "click", () => save("recovery-codes.txt", "text/plain", `${location.host}\n${codesShown()}\n`));
}
on($("codes-print"), "click", () => print());
on($("codes-done"), "click", () => {
  $("codes-list").replaceChildren();
  $("codes-status").textContent = "";
  $("codes").hidden = true;
});
on($("recovery-new"), "click", async () => {
  showCodes((await withPassword((given) => call("POST", "/mfa/recovery-codes", given))).recovery_codes);
  await showFactors();
});

// ---------------------------------------------------------------- password and address
// Do it with what was typed into these fields of a form, which are emptied and said to be done when it is.
async function change(form, path, fields) {
  const status = $(`${form}-status`);
  status.textContent = "";
  const given = Object.fromEntries(fields.map((id) => [$(id).name, $(id).value]));
  await recently(() => call("POST", path, given));
  for (const id of fields) $(id).value = "";
  status.textContent = status.dataset.done;
}

on($("password-form"), "submit", async () => {
  await change("password", "/password", ["current-password", "new-password"]);
  await showSessions();
});
on($("email-form"), "submit", () => change("email", "/email", ["new-email", "email-password"]));

// ---------------------------------------------------------------- passkeys and one-time codes
on($("passkey-form"), "submit", async () => {
  const options = await recently(() => call("POST", "/mfa/passkeys/options", {}));
  const name = $("passkey-name").value.trim();
  const made = await call("POST", "/mfa/passkeys", { ...(await makePasskey(options)), ...(name && { name }) });
  $("passkey-name").value = "";
  await showFactors();
  showCodes(made.recovery_codes);
});

on($("totp-start"), "click", async () => {
  const made = await recently(() => call("POST", "/mfa/totp", {}));
  // An image is a document of its own, which has to name its namespace.
  const svg = made.qr_svg.includes("xmlns=") ? made.qr_svg : made.qr_svg.replace("<svg", "<svg xmlns='http://www.w3.org/2000/svg'");
  $("totp-qr").src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  $("totp-secret").textContent = made.secret.match(/.{1,4}/g).join(" ");
  if ($("totp-link")) $("totp-link").href = made.otpauth_uri;
  $("totp-form").hidden = false;
  $("totp-start").hidden = true;
  $("totp-code").focus();
});
if ($("totp-copy")) copies($("totp-copy"), $("totp-status"), () => $("totp-secret").textContent.replaceAll(" ", ""));
on($("totp-form"), "submit", async () => {
  const made = await recently(() => call("POST", "/mfa/totp/confirm", { code: $("totp-code").value }));
  $("totp-form").hidden = true;
  $("totp-qr").removeAttribute("src");
  $("totp-link")?.removeAttribute("href");
  $("totp-secret").textContent = $("totp-code").value = "";
  await showFactors();
  showCodes(made.recovery_codes);
});
on($("totp-remove"), "click", async () => {
  await withPassword((given) => call("DELETE", "/mfa/totp", given));
  await showFactors();
});

// None in a template of one's own that is older than this.
if ($("export")) on($("export"), "click", async () => {
  const status = $("export-status");
  status.textContent = "";
  const held = await recently(() => call("GET", "/me/export"));
  save(`account-${held.made_at.slice(0, 10)}.json`, "application/json", JSON.stringify(held, null, 2));
  status.textContent = status.dataset.done;
});

// None in a template of one's own that is older than this.
if ($("delete-form")) on($("delete-form"), "submit", async () => {
  await recently(() => call("DELETE", "/me", { password: $("delete-password").value }));
  $("delete-form").reset();
  // Nothing else here is anybody's any more.
  for (const part of document.querySelectorAll(".who, .card")) part.hidden = part.id !== "gone";
  $("gone-title").focus();
});

on($("sign-out"), "click", async () => {
  await signOffApplications();
  await call("POST", "/logout", {});
  location.replace("/account/signin");
});

// An address with the name of something in a row opens it: /account/security#password-title.
document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");

try {
  const { email } = await call("GET", "/me");
  for (const id of ["who", "email-now", "email-state"]) if ($(id)) $(id).textContent = email;
  for (const id of ["ask-username", "password-username", "delete-username"]) if ($(id)) $(id).value = email;
  await Promise.all([showFactors(), showSessions(), showApplications(), showIdentities(), showLanguage()]);
} catch (problem) {
  $("problem").textContent = problem.message;
}
begin();
