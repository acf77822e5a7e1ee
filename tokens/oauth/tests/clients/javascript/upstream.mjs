// Two providers for the tests of signing in with another one: oidc-provider, and oauth2-mock-server. They serve until
// standard input ends; the first line says where.
import { createServer } from "node:http";
import { OAuth2Server } from "oauth2-mock-server";
import Provider from "oidc-provider";

const [clientId, secret, ...redirects] = process.argv.slice(2);
const account = { sub: "ann", email: "ann@example.com", email_verified: true, name: "Ann" };

const mock = new OAuth2Server();
await mock.issuer.keys.generate("RS256");
await mock.start(0, "127.0.0.1");
mock.issuer.url = `http://127.0.0.1:${mock.address().port}`;
mock.service.on("beforeTokenSigning", (token) => Object.assign(token.payload, { ...account, sub: "ann of the mock" }));

const server = createServer();
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: clientId, client_secret: secret, redirect_uris: redirects }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  // Who signs in as "ann" is Ann, and everybody else somebody else.
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ ...account, sub, email: `${sub}@example.com` }) }),
  pkce: { required: () => true },
  cookies: { keys: ["of a test"] },
});
server.on("request", provider.callback());

console.log(JSON.stringify({ "oidc-provider": issuer, "oauth2-mock-server": mock.issuer.url }));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
