// What every page with passkeys shares, the admin's too: WebAuthn, and one act at a time with its problem shown. No
// script may run in markup (Trusted Types).

export const texts = (document.querySelector("[data-unsupported]") ?? document.body).dataset;

export const passkeysWork = Boolean(window.PublicKeyCredential?.parseRequestOptionsFromJSON);

// `host`: whose passkeys they are. At an address that is neither it nor below it, the browser refuses.
async function ceremony(host, run) {
  if (!passkeysWork) throw new Error(texts.unsupported);
  try {
    return (await run()).toJSON();
  } catch (error) {
    const known = { SecurityError: texts.elsewhere, InvalidStateError: texts.exists, NotSupportedError: texts.unsupported };
    throw new Error((known[error.name] || texts.cancelled).replace("{host}", host));
  }
}

// Answer the options the server gave; returns what it wants back.
export async function makePasskey({ challenge_token, publicKey }) {
  const credential = await ceremony(publicKey.rp.id, () => navigator.credentials.create({
    publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey),
  }));
  return { challenge_token, credential };
}

// `how`: `mediation` and `signal` of a request that waits until somebody picks a passkey.
export async function usePasskey({ challenge_token, publicKey }, how = {}) {
  const credential = await ceremony(publicKey.rpId, () => navigator.credentials.get({
    ...how,
    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey),
  }));
  return { challenge_token, credential };
}

export const $ = (id) => document.getElementById(id);

// What could be wrong about what was typed: the fields the server names or, of a proof it refuses, those that prove.
const PROOFS = ["username", "current-password", "one-time-code"];
const blamed = (field, { status, body }) => (body?.errors?.length
  ? body.errors.some((error) => error.field === field.name)
  : status === 401 && PROOFS.includes(field.autocomplete));

// Mark the fields a problem is about, and go to the one most likely to be typed again.
function blame(form, problem, error) {
  problem.id ||= `${form.id}-problem`;
  const wrong = [...form.elements].filter((field) => field.offsetParent && blamed(field, error));
  for (const field of wrong) {
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", problem.id);
  }
  (wrong.findLast((field) => field.type === "password") || wrong[0])?.focus();
}

function pardon(form) {
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
}

// Run what a button or a form is for: once at a time, with its problem shown where the person looks.
export function on(element, event, action) {
  element.addEventListener(event, async (happened) => {
    happened.preventDefault();
    const button = event === "submit" ? element.querySelector("[type=submit]") : element;
    if (button.disabled) return;
    button.disabled = true;
    const problem = element.closest("dialog, .card, main > section")?.querySelector("[role=alert]") || $("problem");
    problem.textContent = "";
    if (event === "submit") pardon(element);
    try {
      await action(happened);
    } catch (error) {
      button.disabled = false; // before the focus goes anywhere
      problem.textContent = error.message;
      if (event === "submit") blame(element, problem, error);
    } finally {
      button.disabled = false;
    }
  });
}
