/** What the server publishes: its metadata and its keys, fetched when first needed and kept for a while. */

import { type Json } from "./encoding.js";
import { ProviderUnavailable } from "./errors.js";

export interface ProviderOptions {
  /** The server's issuer, as it writes it in tokens. */
  issuer: string;
  /** Replaces the global `fetch`; for tests and proxies. */
  fetch?: typeof fetch;
  /** The time, seconds since 1970. */
  clock?: () => number;
  /** Seconds that one answer of the server may take (default 5). */
  timeout?: number;
  /** Seconds after which the keys are fetched again (default 300). */
  keysFor?: number;
  /** Seconds for which they are used while the server does not answer (default 3,600). */
  staleFor?: number;
  /** Seconds between two fetches because of a key that is not known (default 30). */
  refetchAfter?: number;
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

export class Provider {
  readonly issuer: string;
  readonly clock: () => number;
  readonly #options: Required<Omit<ProviderOptions, "issuer" | "clock" | "fetch">>;
  readonly #fetch: typeof fetch;
  #metadata: Json | undefined;
  #keys: Json[] = [];
  #fetchedAt = -Infinity;
  #triedAt = -Infinity;
  #underWay: Promise<void> | undefined;

  constructor(options: ProviderOptions) {
    const { issuer } = options;
    const where = new URL(issuer);
    if (where.protocol !== "https:" && !(where.protocol === "http:" && LOOPBACK.has(where.hostname))) {
      throw new TypeError(`issuer must be an https address, or http on this machine: ${issuer}`);
    }
    this.issuer = issuer;
    this.clock = options.clock ?? (() => Date.now() / 1000);
    this.#fetch = options.fetch ?? ((...asked) => fetch(...asked));
    this.#options = {
      timeout: options.timeout ?? 5,
      keysFor: options.keysFor ?? 300,
      staleFor: options.staleFor ?? 3_600,
      refetchAfter: options.refetchAfter ?? 30,
    };
  }

  /** Return the discovery document, whose issuer must be the one that was configured. */
  async metadata(): Promise<Json> {
    if (this.#metadata === undefined) {
      const found = await this.#object(`${this.issuer}/.well-known/openid-configuration`);
      if (found["issuer"] !== this.issuer) throw new ProviderUnavailable("the server names another issuer");
      this.#metadata = found;
    }
    return this.#metadata;
  }

  /** Return one address of the metadata. Throws ProviderUnavailable where it is missing. */
  async endpoint(name: string): Promise<string> {
    const found = (await this.metadata())[name];
    if (typeof found !== "string") throw new ProviderUnavailable(`the server has no ${name}`);
    return found;
  }

  /** Return the public key of this id, undefined where the server has none. */
  async key(kid: string): Promise<Json | undefined> {
    const { keysFor, staleFor, refetchAfter } = this.#options;
    const find = () => this.#keys.find((key) => key["kid"] === kid);
    const now = this.clock();
    const fresh = now - this.#fetchedAt < keysFor;
    if ((find() === undefined || !fresh) && now - this.#triedAt >= (fresh ? refetchAfter : Math.min(refetchAfter, keysFor))) {
      this.#triedAt = now;
      this.#underWay = this.#refetch().finally(() => (this.#underWay = undefined));
    }
    try {
      await this.#underWay;
    } catch (error) {
      if (now - this.#fetchedAt >= staleFor) throw error;
    }
    if (now - this.#fetchedAt >= staleFor) throw new ProviderUnavailable("the keys are too old to be trusted");
    return find();
  }

  async #refetch(): Promise<void> {
    const found = await this.#object(await this.endpoint("jwks_uri"));
    if (!Array.isArray(found["keys"])) throw new ProviderUnavailable("the server has no key set");
    this.#keys = found["keys"].filter((key): key is Json => typeof key === "object" && key !== null);
    this.#fetchedAt = this.clock();
  }

  async #object(address: string): Promise<Json> {
    const signal = AbortSignal.timeout(this.#options.timeout * 1000);
    let found: unknown;
    try {
      const answer = await this.#fetch(address, { redirect: "error", signal, headers: { Accept: "application/json" } });
      if (!answer.ok) throw new ProviderUnavailable(`the server answers ${answer.status}`);
      found = await answer.json();
    } catch (error) {
      throw error instanceof ProviderUnavailable ? error : new ProviderUnavailable(`the server cannot be asked: ${error}`);
    }
    if (typeof found !== "object" || found === null) throw new ProviderUnavailable("the server answers no object");
    return found as Json;
  }
}
