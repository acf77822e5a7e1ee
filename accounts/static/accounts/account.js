// What these pages share: the API with the cookie transport.
import "../ironauth/show_password.js";
import { texts } from "./passkeys.js";

const API = "/api/v1/access";
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

// Ends what this browser is signed in to applications by, if it is; nothing but a page's own request does so unasked.
export async function signOffApplications() {
  const init = { method: "POST", credentials: "same-origin" };
  init.body = new URLSearchParams({ confirmation: "account-page" });
  const answer = await fetch("/oauth/logout", init).catch(() => null);
  if (!answer?.ok) throw new Problem(answer?.status || 0, { detail: answer ? texts.busy : "" });
}

export function begin() {
  document.querySelector("main").hidden = false;
}
