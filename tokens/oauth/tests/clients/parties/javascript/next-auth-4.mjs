// next-auth 4 with the default client: its handler of a page's API, with requests and answers as Next.js makes them.
import { randomBytes } from "node:crypto";
import { assert, passed, refused, run, visit } from "../../javascript/conversation.mjs";
process.env.NEXTAUTH_URL = "https://app.example.com";
const NextAuth = (await import("next-auth")).default.default;

await run(async ({ issuer, client_id, client_secret, email, plain }) => {
  // begin: pages/api/auth/[...nextauth].js
  const ironauth = {
    id: "ironauth",
    name: "IronAuth",
    type: "oauth",
    wellKnown: `${issuer}/.well-known/openid-configuration`,
    authorization: { params: { scope: "openid email profile" } },
    checks: ["pkce", "state"],
    idToken: true,
    userinfo: { request: ({ client, tokens }) => client.userinfo(tokens) },
    clientId: client_id,
    clientSecret: client_secret,
    profile: (person) => ({ id: person.sub, name: person.name, email: person.email }),
  };
  // end
  const secret = randomBytes(32).toString("hex");

  /** A site of the library, and a browser of its own. */
  function opened(provider) {
    const said = [];
    const logger = { error: (code, told) => said.push(`${code} ${told?.error?.message ?? told?.message}`), warn() {}, debug() {} };
    const cookies = new Map();
    async function ask(address, form) {
      const url = new URL(address, process.env.NEXTAUTH_URL);
      const answer = { status: 200, headers: new Map(), body: undefined };
      const res = {
        status: (status) => ((answer.status = status), res),
        getHeader: (name) => answer.headers.get(name.toLowerCase()),
        setHeader: (name, value) => (answer.headers.set(name.toLowerCase(), value), res),
        json: (body) => ((answer.body = body), res),
        send: (body) => ((answer.body = body), res),
        end: () => res,
      };
      const nextauth = url.pathname.replace("/api/auth/", "").split("/");
      const headers = { host: url.host, cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") };
      const query = { ...Object.fromEntries(url.searchParams), nextauth };
      const req = { method: form ? "POST" : "GET", query, headers, cookies: Object.fromEntries(cookies), body: form };
      await NextAuth(req, res, { providers: [provider], secret, logger });
      for (const cookie of [answer.headers.get("set-cookie") ?? []].flat()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
        cookies.set(name, decodeURIComponent(value));
      }
      return answer;
    }
    async function begin() {
      const { csrfToken } = (await ask("/api/auth/csrf")).body;
      return (await ask("/api/auth/signin/ironauth", { csrfToken, callbackUrl: process.env.NEXTAUTH_URL })).headers.get("location");
    }
    async function finish(callback) {
      await ask(callback);
      if (said.length) throw new Error(said.join("; "));
      return (await ask("/api/auth/session")).body.user;
    }
    return { begin, finish };
  }

  const first = opened(plain ? { ...ironauth, checks: ["state"] } : ironauth);
  const user = await first.finish(await visit(await first.begin()));
  assert(user.email === email, JSON.stringify(user));
  passed("signed in");
  if (plain) return;
  const other = opened({ ...ironauth, client: { id_token_signed_response_alg: "ES256" } });
  await refused(visit(await other.begin()).then(other.finish), "alg");
  passed("refused: another algorithm");
});
