/** Verify access tokens without asking the server: for APIs in Node.js 20 and newer, Deno, Bun and at the edge. */

import { bytesOf, decode, type Json, jsonPart, sha256, thumbprint } from "./encoding.js";
import { InsufficientScope, InvalidProof, InvalidToken } from "./errors.js";
import { Provider, type ProviderOptions } from "./provider.js";

export * from "./errors.js";

/** What a verified token says. */
export interface Claims {
  issuer: string;
  /** Who the person is, or the client where it acts for itself. */
  subject: string;
  clientId: string;
  sessionId: string;
  tokenId: string;
  scopes: ReadonlySet<string>;
  roles: readonly string[];
  /** The organisation that the person acts for; "" for none. */
  organizationId: string;
  /** The person's roles there. */
  organizationRoles: readonly string[];
  /** Seconds since 1970. */
  expiresAt: number;
  /** The key that alone may use the token (RFC 9449); "" for a bearer token. */
  keyThumbprint: string;
  everything: Readonly<Json>;
}

/** Remembers proofs that were used. Several processes share one that they can all reach. */
export interface ReplayStore {
  /** Remember `key` for some seconds; return whether it was new. False where it cannot be remembered. */
  firstUse(key: string, seconds: number): boolean | Promise<boolean>;
}

export interface VerifierOptions extends ProviderOptions {
  /** The audience that tokens must name; the issuer unless given. */
  audience?: string;
  /** Seconds that both clocks may differ (default 10). */
  leeway?: number;
  /** Where used proofs are remembered; in this process unless given. */
  replays?: ReplayStore;
}

export interface Demands {
  /** Scopes that the token must have, all of them. */
  scopes?: readonly string[];
}

/** A request as frameworks have it: `Request` of the platform, or an object with these. */
export interface AskingRequest {
  method: string;
  /** The whole address, as the client knows it. */
  url: string;
  headers: Headers | Record<string, string | string[] | undefined>;
}

const LONGEST = 4_096; // characters; the server's longest token is under 1,024
const PROOF_LIFE = 60; // seconds that a proof may be old
const PRIVATE = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
const PROOF_ALGORITHMS: Record<string, AlgorithmIdentifier | EcKeyImportParams> = {
  ES256: { name: "ECDSA", namedCurve: "P-256" },
  EdDSA: { name: "Ed25519" },
  Ed25519: { name: "Ed25519" },
};

/** Remembers the proofs of one process. Full of proofs that could be replayed, it accepts no more. */
export class MemoryReplayStore implements ReplayStore {
  readonly #until = new Map<string, number>();

  constructor(
    readonly most = 100_000,
    readonly clock: () => number = () => Date.now() / 1000,
  ) {}

  firstUse(key: string, seconds: number): boolean {
    const now = this.clock();
    for (const [old, until] of this.#until) {
      if (until > now) break;
      this.#until.delete(old);
    }
    if (this.#until.has(key) || this.#until.size >= this.most) return false;
    this.#until.set(key, now + seconds);
    return true;
  }
}

/** Verifies tokens of one server. Keep one for the whole process. */
export class Verifier {
  readonly provider: Provider;
  readonly #audience: string;
  readonly #leeway: number;
  readonly #replays: ReplayStore;

  constructor(options: VerifierOptions) {
    this.provider = new Provider(options);
    this.#audience = options.audience ?? options.issuer;
    this.#leeway = options.leeway ?? 10;
    this.#replays = options.replays ?? new MemoryReplayStore(100_000, this.provider.clock);
  }

  /** Return what a bearer token says. Throws InvalidToken, for a token that is bound to a key too; InsufficientScope. */
  async verify(token: string, demands: Demands = {}): Promise<Claims> {
    const claims = await this.#claims(token);
    if (claims.keyThumbprint !== "") throw new InvalidToken("the token is bound to a key: verify the request");
    return allowing(claims, demands);
  }

  /** Return what the token of a request says, with its proof where it is bound to a key. Throws as `verify`; InvalidProof. */
  async verifyRequest(request: AskingRequest, demands: Demands = {}): Promise<Claims> {
    const [scheme, token, ...more] = (header(request, "authorization") ?? "").split(" ");
    const kind = scheme?.toLowerCase();
    if (token === undefined || more.length > 0 || (kind !== "bearer" && kind !== "dpop")) {
      throw new InvalidToken("the request has no access token");
    }
    if (kind === "bearer") return this.verify(token, demands);
    const claims = await this.#claims(token);
    if (claims.keyThumbprint === "") throw new InvalidToken("the token is a bearer token");
    await this.#proved(request, token, claims.keyThumbprint);
    return allowing(claims, demands);
  }

  async #claims(token: string): Promise<Claims> {
    const [head, body] = parts(token);
    const header = jsonPart(head);
    const typ = header["typ"];
    if (typeof typ !== "string" || typ.toLowerCase().replace(/^application\//, "") !== "at+jwt") {
      throw new InvalidToken("the token is no access token");
    }
    if ("crit" in header || "b64" in header) throw new InvalidToken("the token has a header that is not known here");
    const kid = header["kid"];
    if (typeof kid !== "string") throw new InvalidToken("the token names no key");
    const key = await this.provider.key(kid);
    if (key === undefined) throw new InvalidToken("the token's key is not one of the server's");
    if (header["alg"] !== "EdDSA" && header["alg"] !== "Ed25519") throw new InvalidToken("the token's algorithm");
    if (key["kty"] !== "OKP" || key["crv"] !== "Ed25519" || ("alg" in key && key["alg"] !== header["alg"])) {
      throw new InvalidToken("the token's key is of another algorithm");
    }
    if (!(await signed(token, key, { name: "Ed25519" }))) throw new InvalidToken("the token's signature");
    return this.#judged(jsonPart(body));
  }

  #judged(said: Json): Claims {
    const now = this.provider.clock();
    if (said["iss"] !== this.provider.issuer) throw new InvalidToken("the token is another issuer's");
    const audiences = Array.isArray(said["aud"]) ? said["aud"] : [said["aud"]];
    if (!audiences.includes(this.#audience)) throw new InvalidToken("the token is for another audience");
    const expiresAt = number(said, "exp");
    if (now >= expiresAt + this.#leeway) throw new InvalidToken("the token has expired");
    if (number(said, "iat") > now + this.#leeway) throw new InvalidToken("the token is not valid yet");
    if ("nbf" in said && number(said, "nbf") > now + this.#leeway) throw new InvalidToken("the token is not valid yet");
    const cnf = said["cnf"];
    const bound = typeof cnf === "object" && cnf !== null ? (cnf as Json)["jkt"] : undefined;
    if (cnf !== undefined && (typeof bound !== "string" || bound === "")) {
      throw new InvalidToken("the token is bound in a way that is not known here");
    }
    if ("act" in said) actedByClients(said["act"]);
    if ("org_id" in said && typeof said["org_id"] !== "string") throw new InvalidToken("org_id");
    return {
      issuer: this.provider.issuer,
      subject: text(said, "sub"),
      clientId: text(said, "client_id"),
      sessionId: typeof said["sid"] === "string" ? said["sid"] : "",
      tokenId: text(said, "jti"),
      scopes: new Set(typeof said["scope"] === "string" ? said["scope"].split(" ").filter(Boolean) : []),
      roles: names(said, "roles"),
      organizationId: typeof said["org_id"] === "string" ? said["org_id"] : "",
      organizationRoles: names(said, "org_roles"),
      expiresAt,
      keyThumbprint: typeof bound === "string" ? bound : "",
      everything: said,
    };
  }

  async #proved(request: AskingRequest, token: string, jkt: string): Promise<void> {
    const proof = header(request, "dpop");
    if (proof === undefined) throw new InvalidProof("the request has no proof of its key");
    let said: Json;
    try {
      said = await proofClaims(proof, jkt);
    } catch (error) {
      throw error instanceof InvalidToken ? new InvalidProof(error.message) : error;
    }
    const { jti, htm, htu, ath, iat } = said;
    if (typeof jti !== "string" || jti === "" || jti.length > 256) throw new InvalidProof("the proof has no jti");
    if (htm !== request.method || typeof htu !== "string" || spelled(htu) !== spelled(request.url)) {
      throw new InvalidProof("the proof is for another request");
    }
    if (ath !== (await sha256(token))) throw new InvalidProof("the proof is for another token");
    const now = this.provider.clock();
    if (typeof iat !== "number" || iat < now - PROOF_LIFE - this.#leeway || iat > now + this.#leeway) {
      throw new InvalidProof("the proof is too old, or of the future");
    }
    const used = await sha256(`${jkt} ${jti}`);
    if (!(await this.#replays.firstUse(used, PROOF_LIFE + 2 * this.#leeway + 1))) {
      throw new InvalidProof("the proof was used before");
    }
  }
}

/** Return what a proof says that the key of this thumbprint has signed. Throws InvalidToken. */
async function proofClaims(proof: string, jkt: string): Promise<Json> {
  const [head, body] = parts(proof);
  const { typ, alg, jwk } = jsonPart(head);
  const algorithm = PROOF_ALGORITHMS[String(alg)];
  if (typ !== "dpop+jwt" || algorithm === undefined) throw new InvalidToken("the proof is of another kind");
  if (typeof jwk !== "object" || jwk === null || PRIVATE.some((name) => name in jwk)) {
    throw new InvalidToken("the proof has no public key");
  }
  if ((await thumbprint(jwk as Json)) !== jkt) throw new InvalidToken("the proof is of another key");
  if (!(await signed(proof, jwk as Json, algorithm))) throw new InvalidToken("the proof's signature");
  return jsonPart(body);
}

function parts(token: string): [string, string] {
  const found = typeof token === "string" && token.length <= LONGEST ? token.split(".") : [];
  if (found.length !== 3) throw new InvalidToken("the token is none");
  return [found[0]!, found[1]!];
}

async function signed(token: string, jwk: Json, algorithm: AlgorithmIdentifier | EcKeyImportParams): Promise<boolean> {
  const end = token.lastIndexOf(".");
  const { kty, crv, x, y } = jwk as JsonWebKey;
  const material = { kty, crv, x, ...(y === undefined ? {} : { y }) } as JsonWebKey;
  try {
    const key = await crypto.subtle.importKey("jwk", material, algorithm as EcKeyImportParams, false, ["verify"]);
    const name = typeof algorithm === "string" ? algorithm : algorithm.name;
    const how = name === "ECDSA" ? { name, hash: "SHA-256" } : { name };
    return await crypto.subtle.verify(how, key, decode(token.slice(end + 1)), bytesOf(token.slice(0, end)));
  } catch {
    return false;
  }
}

/** Throw InvalidToken for a token by which a member of staff looks at an account: it is for IronAuth's own pages. */
function actedByClients(act: unknown): void {
  for (let each: unknown = act; each !== undefined; each = (each as Json)["act"]) {
    const known = typeof each === "object" && each !== null && ((each as Json)["kind"] ?? "client") === "client";
    if (!known) throw new InvalidToken("the token is one of staff who act as a person");
  }
}

function allowing(claims: Claims, demands: Demands): Claims {
  const missing = (demands.scopes ?? []).filter((scope) => !claims.scopes.has(scope));
  if (missing.length > 0) throw new InsufficientScope(missing);
  return claims;
}

/** Return a header; undefined where there is none, or more than one. */
function header(request: AskingRequest, name: string): string | undefined {
  const { headers } = request;
  const found = headers instanceof Headers ? headers.get(name) : (headers[name] ?? headers[name.toUpperCase()]);
  return typeof found === "string" && found !== "" ? found : undefined;
}

function number(said: Json, name: string): number {
  const found = said[name];
  if (typeof found !== "number" || !Number.isFinite(found)) throw new InvalidToken(`${name} is no time`);
  return found;
}

function names(said: Json, name: string): string[] {
  const found = said[name] ?? [];
  if (!Array.isArray(found) || found.some((one) => typeof one !== "string")) throw new InvalidToken(name);
  return found;
}

function text(said: Json, name: string): string {
  const found = said[name];
  if (typeof found !== "string" || found === "") throw new InvalidToken(`${name} is missing`);
  return found;
}

/** Return an address as RFC 3986 §6.2 spells it, without query and fragment. */
function spelled(address: string): string | undefined {
  try {
    const { protocol, host, pathname } = new URL(address);
    return `${protocol}//${host}${pathname}`;
  } catch {
    return undefined;
  }
}
