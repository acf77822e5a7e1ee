// What every page with passkeys shares, the admin's too: WebAuthn, and one act at a time with its problem shown. No
// script may run in markup (Trusted Types).

export const texts = (document.querySelector("[data-unsupported]") ?? document.body).dataset;

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
