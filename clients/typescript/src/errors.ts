/** What goes wrong, with the status and the code that an API answers with. */

export class IronAuthError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** The token is not good: answer 401. */
export class InvalidToken extends IronAuthError {
  constructor(message: string) {
    super(401, "invalid_token", message);
  }
}

/** The proof that came with the token is not good: answer 401. */
export class InvalidProof extends IronAuthError {
  constructor(message: string) {
    super(401, "invalid_dpop_proof", message);
  }
}

/** The token is good, and does not allow this: answer 403. */
export class InsufficientScope extends IronAuthError {
  constructor(missing: string[]) {
    super(403, "insufficient_scope", `the token lacks ${missing.join(" ")}`);
  }
}

/** The IronAuth server did not answer as it must: answer 503. */
export class ProviderUnavailable extends IronAuthError {
  constructor(message: string) {
    super(503, "provider_unavailable", message);
  }
}

/** A sign-in did not come to its end; `code` is what the server said. */
export class SignInFailed extends IronAuthError {
  constructor(code: string, message: string) {
    super(400, code, message);
  }
}

/** Nobody is signed in here, or not any more. */
export class SignedOut extends IronAuthError {
  constructor() {
    super(401, "signed_out", "nobody is signed in");
  }
}
