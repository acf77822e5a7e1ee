// openid-client 6 with the default client.
import { assert, passed, refused, run, visit } from "../conversation.mjs";
const client = await import("openid-client"); // after conversation.mjs has made Node.js 18 ready for it

await run(async ({ issuer, client_id, client_secret, redirect_uri, email }) => {
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
});
