// openid-client 5 with the default client.
import { assert, passed, refused, run, visit } from "../conversation.mjs";
const { Issuer, generators } = (await import("openid-client-5")).default;

await run(async ({ issuer, client_id, client_secret, redirect_uri, email, whole, gone }) => {
  // begin: signin.mjs
  const provider = await Issuer.discover(issuer);
  const client = new provider.Client({ client_id, client_secret, redirect_uris: [redirect_uri], response_types: ["code"] });

  function begin() {
    const checks = { code_verifier: generators.codeVerifier(), state: generators.state(), nonce: generators.nonce() };
    const url = client.authorizationUrl({
      scope: "openid profile email",
      state: checks.state,
      nonce: checks.nonce,
      code_challenge: generators.codeChallenge(checks.code_verifier),
      code_challenge_method: "S256",
    });
    return { url, checks };
  }

  async function finish(callback, checks, client) {
    const tokens = await client.callback(redirect_uri, client.callbackParams(callback), checks);
    return await client.userinfo(tokens);
  }
  // end
  const { url, checks } = begin();
  assert((await finish((await visit(url)).href, checks, client)).email === email, "who it is");
  passed("signed in");
  const other = new provider.Client({ ...client.metadata, id_token_signed_response_alg: "ES256" });
  const again = begin();
  await refused(visit(again.url).then((back) => finish(back.href, again.checks, other)), "unexpected JWT alg");
  passed("refused: another algorithm");
  if (!whole) return;

  async function tokens() {
    const { url, checks } = begin();
    return await client.callback(redirect_uri, client.callbackParams((await visit(url)).href), checks);
  }
  const first = await tokens();
  const renewed = await client.refresh(first);
  assert(renewed.claims().sub === first.claims().sub && renewed.refresh_token !== first.refresh_token, "renewed");
  passed("refreshed");
  await client.revoke(renewed.refresh_token);
  await refused(client.refresh(renewed.refresh_token), "invalid_grant");
  passed("revoked");
  const asked = { id_token_hint: await tokens(), post_logout_redirect_uri: gone, state: "bye" };
  assert((await visit(client.endSessionUrl(asked))).href === `${gone}?state=bye`, "back after signing out");
  passed("signed out");
});
