// openid-client 6 with the default client.
import { assert, passed, refused, run, visit } from "../conversation.mjs";
const client = await import("openid-client"); // after conversation.mjs has made Node.js 18 ready for it

await run(async ({ issuer, client_id, client_secret, redirect_uri, email, whole, gone }) => {
  const http = { execute: [client.allowInsecureRequests, client.enableNonRepudiationChecks] };
  // begin: signin.mjs
  const config = await client.discovery(new URL(issuer), client_id, client_secret, undefined, http);

  async function begin() {
    const pkceCodeVerifier = client.randomPKCECodeVerifier();
    const expectedState = client.randomState();
    const url = client.buildAuthorizationUrl(config, {
      redirect_uri,
      scope: "openid profile email",
      state: expectedState,
      code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: "S256",
    });
    return { url, checks: { pkceCodeVerifier, expectedState } };
  }

  async function finish(callback, checks) {
    const tokens = await client.authorizationCodeGrant(config, callback, checks);
    return await client.fetchUserInfo(config, tokens.access_token, tokens.claims().sub);
  }
  // end
  const { url, checks } = await begin();
  assert((await finish(await visit(url), checks)).email === email, "who it is");
  passed("signed in");
  const metadata = { client_secret, id_token_signed_response_alg: "ES256" };
  const other = await client.discovery(new URL(issuer), client_id, metadata, undefined, http);
  const again = await begin();
  await refused(client.authorizationCodeGrant(other, await visit(again.url), again.checks), "alg");
  passed("refused: another algorithm");
  if (!whole) return;

  async function tokens() {
    const { url, checks } = await begin();
    return await client.authorizationCodeGrant(config, await visit(url), checks);
  }
  const first = await tokens();
  const renewed = await client.refreshTokenGrant(config, first.refresh_token);
  assert(renewed.claims().sub === first.claims().sub && renewed.refresh_token !== first.refresh_token, "renewed");
  passed("refreshed");
  await client.tokenRevocation(config, renewed.refresh_token);
  await refused(client.refreshTokenGrant(config, renewed.refresh_token), "invalid_grant");
  passed("revoked");
  const asked = { id_token_hint: (await tokens()).id_token, post_logout_redirect_uri: gone, state: "bye" };
  assert((await visit(client.buildEndSessionUrl(config, asked))).href === `${gone}?state=bye`, "back after signing out");
  passed("signed out");
});
