// What both pages share: the API with the cookie transport, and WebAuthn. No script may run in markup (Trusted Types).

const API = "/api/v1/access";
const texts = document.querySelector("main").dataset;
let refreshing = null;

export class Problem extends Error {
  constructor(status, body) {
    const fields = (body.errors || []).map((error) => error.message).join(" ");
    super(fields || body.detail || texts.offline);
    Object.assign(this, { status, code: body.code, body });
  }
}

async function send(method, path, body) {
  const init = { method, credentials: "same-origin", headers: {} };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(API + path, init);
  } catch {
    throw new Problem(0, {});
  }
  const json = await answer.json().catch(() => null);
  if (!answer.ok) throw new Problem(answer.status, json || {});
  return json;
}

// For who is not signed in: what the server says is what is shown.
export const open = (path, body) => send("POST", path, body);

// For who is: an access token that ended is renewed, and a session that ended leads to the sign-in page.
export async function call(method, path, body) {
  try {
    return await send(method, path, body);
  } catch (problem) {
    if (!["invalid_token", "not_authenticated"].includes(problem.code)) throw problem;
  }
  refreshing ||= send("POST", "/refresh", {}).finally(() => { refreshing = null; });
  try {
    await refreshing;
  } catch (problem) {
    if (problem.status !== 401 && problem.status !== 400) throw problem;
    location.replace(`/account/signin?next=${encodeURIComponent(location.pathname)}`);
    return new Promise(() => {});
  }
  return send(method, path, body);
}

export const passkeysWork = Boolean(window.PublicKeyCredential?.parseRequestOptionsFromJSON);

async function ceremony(run) {
  if (!passkeysWork) throw new Error(texts.unsupported);
  try {
    return (await run()).toJSON();
  } catch (error) {
    const known = { SecurityError: texts.elsewhere, InvalidStateError: texts.exists, NotSupportedError: texts.unsupported };
    throw new Error(known[error.name] || texts.cancelled);
  }
}

// Answer the options the server gave; returns what it wants back.
export async function makePasskey({ challenge_token, publicKey }) {
  const credential = await ceremony(() => navigator.credentials.create({
    publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey),
  }));
  return { challenge_token, credential };
}

export async function usePasskey({ challenge_token, publicKey }) {
  const credential = await ceremony(() => navigator.credentials.get({
    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey),
  }));
  return { challenge_token, credential };
}

export const $ = (id) => document.getElementById(id);

// Run what a button or a form is for: once at a time, with its problem shown where the person looks.
export function on(element, event, action) {
  element.addEventListener(event, async (happened) => {
    happened.preventDefault();
    const button = event === "submit" ? element.querySelector("[type=submit]") : element;
    if (button.disabled) return;
    button.disabled = true;
    const problem = element.closest("dialog, .card")?.querySelector("[role=alert]") || $("problem");
    problem.textContent = "";
    try {
      await action(happened);
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  });
}

export function begin() {
  document.querySelector("main").hidden = false;
}
