// Auth.js (the core of next-auth 5) with the default client.
import { randomBytes } from "node:crypto";
import { assert, passed, refused, run, visit } from "../conversation.mjs";
const { Auth } = await import("@auth/core"); // after conversation.mjs has made Node.js 18 ready for it

await run(async ({ issuer, client_id, client_secret, redirect_uri, email }) => {
  // begin: auth.mjs
  const ironauth = {
    id: "ironauth",
    name: "IronAuth",
    type: "oidc",
    issuer,
    clientId: client_id,
    clientSecret: client_secret,
    idToken: false,
  };
  // end
  const site = new URL(redirect_uri).origin;
  const secret = randomBytes(32).toString("hex");

  /** A site of the library, and a browser of its own. */
  function opened(provider) {
    const said = [];
    const logger = { error: (error) => said.push(String(error?.cause?.err?.message ?? error?.message)), warn() {}, debug() {} };
    const config = { providers: [provider], secret, trustHost: true, basePath: "/auth", logger };
    const cookies = new Map();
    async function ask(address, form) {
      const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") };
      const body = form && new URLSearchParams(form);
      const answer = await Auth(new Request(new URL(address, site), { method: form ? "POST" : "GET", headers, body }), config);
      for (const cookie of answer.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
        cookies.set(name, value);
      }
      return answer;
    }
    async function begin() {
      const { csrfToken } = await (await ask("/auth/csrf")).json();
      return (await ask("/auth/signin/ironauth", { csrfToken, callbackUrl: site })).headers.get("location");
    }
    async function finish(callback) {
      const answer = await ask(callback);
      if (said.length) throw new Error(said.join("; "));
      assert(answer.status === 302, answer.status);
      return (await (await ask("/auth/session")).json()).user;
    }
    return { begin, finish };
  }

  const first = opened(ironauth);
  const user = await first.finish(await visit(await first.begin()));
  assert(user.email === email, JSON.stringify(user));
  passed("signed in");
  const other = opened({ ...ironauth, client: { id_token_signed_response_alg: "ES256" } });
  await refused(visit(await other.begin()).then(other.finish), "alg");
  passed("refused: another algorithm");
});
