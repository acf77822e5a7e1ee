// oauth4webapi with the default client.
import { assert, passed, refused, run, visit } from "../conversation.mjs";
const oauth = await import("oauth4webapi"); // after conversation.mjs has made Node.js 18 ready for it

await run(async ({ issuer, client_id, client_secret, redirect_uri, email, whole }) => {
  const http = { [oauth.allowInsecureRequests]: true };
  // begin: signin.mjs
  const address = new URL(issuer);
  const as = await oauth.processDiscoveryResponse(address, await oauth.discoveryRequest(address, http));
  const client = { client_id };
  const auth = oauth.ClientSecretBasic(client_secret);

  async function begin() {
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const url = new URL(as.authorization_endpoint);
    url.search = new URLSearchParams({
      client_id,
      redirect_uri,
      response_type: "code",
      scope: "openid profile email",
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
    });
    return { url, state, verifier };
  }

  async function finish(callback, { state, verifier }, client) {
    const answer = oauth.validateAuthResponse(as, client, callback, state);
    const response = await oauth.authorizationCodeGrantRequest(as, client, auth, answer, redirect_uri, verifier, http);
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, { requireIdToken: true });
    await oauth.validateApplicationLevelSignature(as, response, http);
    const { sub } = oauth.getValidatedIdTokenClaims(tokens);
    const asked = await oauth.userInfoRequest(as, client, tokens.access_token, http);
    return await oauth.processUserInfoResponse(as, client, sub, asked);
  }
  // end
  const first = await begin();
  assert((await finish(await visit(first.url), first, client)).email === email, "who it is");
  passed("signed in");
  const again = await begin();
  const other = { client_id, id_token_signed_response_alg: "ES256" };
  await refused(visit(again.url).then((back) => finish(back, again, other)), "alg");
  passed("refused: another algorithm");
  if (!whole) return;

  const third = await begin();
  const answer = oauth.validateAuthResponse(as, client, await visit(third.url), third.state);
  const redeemed = await oauth.authorizationCodeGrantRequest(as, client, auth, answer, redirect_uri, third.verifier, http);
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, redeemed);
  async function renew(token) {
    return await oauth.processRefreshTokenResponse(as, client, await oauth.refreshTokenGrantRequest(as, client, auth, token, http));
  }
  const renewed = await renew(tokens.refresh_token);
  assert(renewed.refresh_token !== tokens.refresh_token, "renewed");
  passed("refreshed");
  await oauth.processRevocationResponse(await oauth.revocationRequest(as, client, auth, renewed.refresh_token, http));
  await refused(renew(renewed.refresh_token), "invalid_grant");
  passed("revoked");
});
