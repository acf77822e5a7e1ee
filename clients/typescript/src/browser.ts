/** Sign people in from a page: authorization code with PKCE, refresh in one tab for all, tokens bound to a key (DPoP). */

import { bytesOf, encode, type Json, jsonPart, jsonText, random, sha256, thumbprint } from "./encoding.js";
import { InvalidToken, ProviderUnavailable, SignedOut, SignInFailed } from "./errors.js";
import { Provider } from "./provider.js";
import { Store } from "./store.js";

export * from "./errors.js";

export interface SessionOptions {
  /** The IronAuth server: its issuer. */
  issuer: string;
  /** The application's client, a public one. */
  clientId: string;
  /** Where the server sends people back to: an address of this page that the client has registered. */
  redirectUri: string;
  /** What the tokens may do (default `openid`). */
  scope?: string;
  /** Seconds before its end at which an access token is replaced (default 30). */
  early?: number;
}

export interface SignInOptions {
  /** Where to go on after the sign-in, below this origin (default: the page that called). */
  returnTo?: string;
  /** The address that the sign-in page begins with. */
  loginHint?: string;
  /** The short name of another provider to sign in with. */
  provider?: string;
  /** `login`, `consent`, `select_account` or `create`. */
  prompt?: string;
}

/** Who is signed in, from the ID token. */
export interface Person {
  subject: string;
  /** What they called themselves when userinfo was last asked, which a sign-in does with the scope `profile`. */
  name?: string;
  claims: Readonly<Json>;
}

interface Tokens {
  access: string;
  refresh: string;
  idToken: string;
  expiresAt: number;
  person: Person;
}

interface Pending {
  verifier: string;
  nonce: string;
  returnTo: string;
  at: number;
}

/** Return the person with this name, without one where it is none. */
function named({ subject, claims }: Person, name: unknown): Person {
  return { subject, ...(typeof name === "string" && name !== "" ? { name } : {}), claims };
}

const PENDING_FOR = 3_600; // seconds that a sign-in may take
const KEY = "key";
const TOKENS = "tokens";
/** Sign-ins that are being finished, by their `state`: a component that asks twice gets the one answer. */
const finishing = new Map<string, Promise<string | undefined>>();

/** The session of a person with one server, shared by all tabs of this origin. */
export class Session {
  readonly #provider: Provider;
  readonly #store: Store<unknown>;
  readonly #name: string;

  constructor(readonly options: SessionOptions) {
    this.#provider = new Provider({ issuer: options.issuer });
    this.#name = `ironauth ${options.issuer} ${options.clientId}`;
    this.#store = new Store(this.#name);
  }

  /** Return who is signed in, undefined where nobody is. */
  async person(): Promise<Person | undefined> {
    return (await this.#tokens())?.person;
  }

  /** Leave the page for the server's sign-in page. */
  async signIn(options: SignInOptions = {}): Promise<void> {
    const state = random();
    const pending: Pending = {
      verifier: random(),
      nonce: random(),
      returnTo: sameOrigin(options.returnTo ?? location.href),
      at: Date.now() / 1000,
    };
    const query = new URLSearchParams({
      response_type: "code",
      client_id: this.options.clientId,
      redirect_uri: this.options.redirectUri,
      scope: this.options.scope ?? "openid",
      state,
      nonce: pending.nonce,
      code_challenge: await sha256(pending.verifier),
      code_challenge_method: "S256",
      dpop_jkt: await thumbprint(await this.#publicKey()),
    });
    const asked = { login_hint: options.loginHint, provider: options.provider, prompt: options.prompt };
    for (const [name, value] of Object.entries(asked)) if (value !== undefined) query.set(name, value);
    const where = await this.#provider.endpoint("authorization_endpoint");
    await this.#store.put(`pending ${state}`, pending);
    location.assign(`${where}?${query}`);
  }

  /**
   * Finish a sign-in on the page of `redirectUri`; on every other page nothing happens.
   *
   * Returns where to go on, undefined where the address is no answer to a sign-in. Throws SignInFailed. Called while it
   * runs, it gives the same promise: React runs an effect twice in its strict mode.
   */
  async finishSignIn(address: string = location.href): Promise<string | undefined> {
    const answer = new URL(address).searchParams;
    const state = answer.get("state");
    if (state === null || (!answer.has("code") && !answer.has("error"))) return undefined;
    const begun = finishing.get(state) ?? this.#finished(answer, state).finally(() => finishing.delete(state));
    finishing.set(state, begun);
    return begun;
  }

  async #finished(answer: URLSearchParams, state: string): Promise<string | undefined> {
    const pending = (await this.#store.get(`pending ${state}`)) as Pending | undefined;
    await this.#store.remove(`pending ${state}`);
    if (pending === undefined || Date.now() / 1000 - pending.at > PENDING_FOR) {
      throw new SignInFailed("unknown_state", "this sign-in was not begun here, or long ago: sign in again");
    }
    if (answer.get("iss") !== this.options.issuer) {
      throw new SignInFailed("another_issuer", "another server has answered: sign in again");
    }
    const code = answer.get("code");
    if (code === null) {
      throw new SignInFailed(answer.get("error") ?? "", answer.get("error_description") ?? "the server refused");
    }
    await this.#exclusively(async () => {
      const found = await this.#ask("token_endpoint", {
        grant_type: "authorization_code",
        code,
        redirect_uri: this.options.redirectUri,
        code_verifier: pending.verifier,
      });
      await this.#keep(found, this.#identified(text(found, "id_token"), pending.nonce));
    });
    if ((this.options.scope ?? "").split(" ").includes("profile")) {
      await this.userinfo().catch(() => undefined); // somebody without a name is signed in all the same
    }
    return pending.returnTo;
  }

  /** Return an access token that is good for half a minute at least, or for `early`. Throws SignedOut, ProviderUnavailable. */
  async accessToken(): Promise<string> {
    const kept = await this.#tokens();
    if (kept === undefined) throw new SignedOut();
    if (kept.expiresAt - Date.now() / 1000 > (this.options.early ?? 30)) return kept.access;
    return this.#refreshed(kept.access);
  }

  /** Do as `fetch` does, with an access token and its proof. A token that is refused is replaced once. */
  async fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const request = new Request(input, init);
    const again = request.clone();
    const token = await this.accessToken();
    const answer = await fetch(await this.#authorized(request, token));
    if (answer.status !== 401 || !/invalid_token/.test(answer.headers.get("WWW-Authenticate") ?? "")) return answer;
    return fetch(await this.#authorized(again, await this.#refreshed(token)));
  }

  /** Return what the server says of the person now, as the scopes allow. Throws SignedOut, ProviderUnavailable. */
  async userinfo(): Promise<Readonly<Json>> {
    const kept = await this.#tokens();
    if (kept === undefined) throw new SignedOut();
    const answer = await this.fetch(await this.#provider.endpoint("userinfo_endpoint"));
    if (!answer.ok) throw new ProviderUnavailable(`userinfo answers ${answer.status}`);
    const found = (await answer.json().catch(() => ({}))) as Json;
    // OpenID Connect Core §5.3.2: an answer about somebody else is used for nothing.
    if (found["sub"] !== kept.person.subject) throw new ProviderUnavailable("userinfo is about somebody else");
    await this.#exclusively(async () => {
      const now = await this.#tokens();
      if (now === undefined || now.person.subject !== found["sub"]) return;
      await this.#store.put(TOKENS, { ...now, person: named(now.person, found["name"]) });
    });
    return found;
  }

  /** End the session at the server and in every tab; with `everywhere` also the browser's sign-in at the server. */
  async signOut({ everywhere = false, returnTo }: { everywhere?: boolean; returnTo?: string } = {}): Promise<void> {
    const kept = await this.#exclusively(async () => {
      const found = await this.#tokens();
      await this.#forget();
      return found;
    });
    if (kept === undefined) return;
    await this.#ask("revocation_endpoint", { token: kept.refresh || kept.access }).catch(() => undefined);
    if (!everywhere) return;
    const query = new URLSearchParams({ id_token_hint: kept.idToken, client_id: this.options.clientId });
    if (returnTo !== undefined) query.set("post_logout_redirect_uri", returnTo);
    location.assign(`${await this.#provider.endpoint("end_session_endpoint")}?${query}`);
  }

  async #tokens(): Promise<Tokens | undefined> {
    return (await this.#store.get(TOKENS)) as Tokens | undefined;
  }

  /** Replace the access token, in one tab for all: the others find what it got. */
  async #refreshed(refused: string): Promise<string> {
    return this.#exclusively(async () => {
      const kept = await this.#tokens();
      if (kept === undefined) throw new SignedOut();
      if (kept.access !== refused) return kept.access;
      if (kept.refresh === "") throw await this.#ended();
      let found: Json;
      try {
        found = await this.#ask("token_endpoint", { grant_type: "refresh_token", refresh_token: kept.refresh });
      } catch (error) {
        throw error instanceof SignInFailed && error.code === "invalid_grant" ? await this.#ended() : error;
      }
      return (await this.#keep(found, kept.person, kept)).access;
    });
  }

  async #ended(): Promise<SignedOut> {
    await this.#forget();
    return new SignedOut();
  }

  async #forget(): Promise<void> {
    await this.#store.remove(TOKENS);
    await this.#store.remove(KEY);
  }

  async #keep(answer: Json, person: Person, before?: Tokens): Promise<Tokens> {
    if (String(answer["token_type"]).toLowerCase() !== "dpop") throw new ProviderUnavailable("the token is not bound");
    const life = typeof answer["expires_in"] === "number" ? answer["expires_in"] : 0;
    const kept: Tokens = {
      access: text(answer, "access_token"),
      refresh: typeof answer["refresh_token"] === "string" ? answer["refresh_token"] : (before?.refresh ?? ""),
      idToken: typeof answer["id_token"] === "string" ? answer["id_token"] : (before?.idToken ?? ""),
      expiresAt: Date.now() / 1000 + life,
      person,
    };
    await this.#store.put(TOKENS, kept);
    return kept;
  }

  /**
   * Return the person of an ID token.
   *
   * It came from the token endpoint itself, so TLS has shown who made it (OpenID Connect Core §3.1.3.7, 6).
   */
  #identified(token: string, nonce: string): Person {
    const claims = jsonPart(token.split(".")[1] ?? "");
    const audiences = Array.isArray(claims["aud"]) ? claims["aud"] : [claims["aud"]];
    const good =
      claims["iss"] === this.options.issuer &&
      audiences.includes(this.options.clientId) &&
      (claims["azp"] ?? this.options.clientId) === this.options.clientId &&
      claims["nonce"] === nonce &&
      typeof claims["exp"] === "number" &&
      claims["exp"] + 60 > Date.now() / 1000;
    if (!good) throw new SignInFailed("invalid_id_token", "the ID token answers another sign-in: sign in again");
    return { subject: text(claims, "sub"), claims };
  }

  async #ask(endpoint: string, parameters: Record<string, string>): Promise<Json> {
    const where = await this.#provider.endpoint(endpoint);
    const body = new URLSearchParams({ ...parameters, client_id: this.options.clientId });
    let answer: Response;
    try {
      const headers = { DPoP: await this.#proof("POST", where) };
      answer = await fetch(where, { method: "POST", body, headers, credentials: "omit", redirect: "error" });
    } catch (error) {
      throw new ProviderUnavailable(`the server cannot be asked: ${error}`);
    }
    const found = (await answer.json().catch(() => ({}))) as Json;
    if (answer.ok) return found;
    if (answer.status >= 500 || answer.status === 429) throw new ProviderUnavailable(`the server answers ${answer.status}`);
    throw new SignInFailed(String(found["error"] ?? answer.status), String(found["error_description"] ?? ""));
  }

  async #authorized(request: Request, token: string): Promise<Request> {
    const headers = new Headers(request.headers);
    headers.set("Authorization", `DPoP ${token}`);
    headers.set("DPoP", await this.#proof(request.method, request.url, token));
    return new Request(request, { headers });
  }

  /** Return a proof that this request comes from the holder of the key (RFC 9449 §4.2). */
  async #proof(method: string, address: string, token?: string): Promise<string> {
    const { privateKey } = await this.#keys();
    const { origin, pathname } = new URL(address);
    const head = { typ: "dpop+jwt", alg: "ES256", jwk: await this.#publicKey() };
    const said: Json = { jti: random(16), htm: method, htu: origin + pathname, iat: Math.floor(Date.now() / 1000) };
    if (token !== undefined) said["ath"] = await sha256(token);
    const signed = `${jsonText(head)}.${jsonText(said)}`;
    const how = { name: "ECDSA", hash: "SHA-256" };
    return `${signed}.${encode(await crypto.subtle.sign(how, privateKey, bytesOf(signed)))}`;
  }

  async #publicKey(): Promise<Json> {
    const { kty, crv, x, y } = await crypto.subtle.exportKey("jwk", (await this.#keys()).publicKey);
    return { kty, crv, x, y };
  }

  /** Return the key of this browser, whose private half no script can read; made when first needed, once for all tabs. */
  async #keys(): Promise<CryptoKeyPair> {
    const kept = (await this.#store.get(KEY)) as CryptoKeyPair | undefined;
    if (kept !== undefined) return kept;
    return navigator.locks.request(`${this.#name} key`, async () => {
      const other = (await this.#store.get(KEY)) as CryptoKeyPair | undefined;
      if (other !== undefined) return other;
      const made = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign", "verify"]);
      await this.#store.put(KEY, made);
      return made;
    });
  }

  /** Run one block of all tabs at a time. */
  async #exclusively<T>(block: () => Promise<T>): Promise<T> {
    return navigator.locks.request(this.#name, block) as Promise<T>;
  }
}

/** Return an address of this origin. Throws TypeError for any other: nobody is sent elsewhere after a sign-in. */
function sameOrigin(address: string): string {
  const where = new URL(address, location.href);
  if (where.origin !== location.origin) throw new TypeError("returnTo must be an address of this origin");
  return where.href;
}

function text(said: Json, name: string): string {
  const found = said[name];
  if (typeof found !== "string" || found === "") throw new InvalidToken(`${name} is missing`);
  return found;
}
