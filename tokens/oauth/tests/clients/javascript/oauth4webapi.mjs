// oauth4webapi: the same protocol in its single steps, and an API that checks access tokens by itself.
import { assert, passed, refused, run, soon, visit } from "./conversation.mjs";
const oauth = await import("oauth4webapi"); // after conversation.mjs has made Node.js 18 ready for it

const http = { [oauth.allowInsecureRequests]: true };

/** Get a code for a pushed request, and the server's answer to it. */
async function redeem(given, as, client, auth, verifier, nonce) {
  const state = oauth.generateRandomState();
  const parameters = {
    client_id: client.client_id,
    redirect_uri: given.redirect_uri,
    response_type: "code",
    scope: "openid profile email offline_access",
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  };
  const kept = await oauth.pushedAuthorizationRequest(as, client, auth, parameters, http);
  const { request_uri } = await oauth.processPushedAuthorizationResponse(as, client, kept);
  const url = new URL(as.authorization_endpoint);
  url.search = new URLSearchParams({ client_id: client.client_id, request_uri });
  const answered = oauth.validateAuthResponse(as, client, await visit(url), state);
  return await oauth.authorizationCodeGrantRequest(as, client, auth, answered, given.redirect_uri, verifier, http);
}

/** What an API does with a request: it verifies the token by the key set of the server, and by nothing else. */
function checkedByApi(given, as, header, audience = given.issuer, options = {}) {
  const request = new Request("https://api.example.com/things", { headers: { authorization: header } });
  return oauth.validateJwtAccessToken(as, request, audience, { ...http, ...options });
}

async function signIn(given, as, client, auth) {
  const verifier = oauth.generateRandomCodeVerifier();
  const nonce = oauth.generateRandomNonce();
  const response = await redeem(given, as, client, auth, verifier, nonce);
  const check = { expectedNonce: nonce, requireIdToken: true };
  await refused(oauth.processAuthorizationCodeResponse(as, { client_id: "another" }, response.clone(), check), "");
  passed("refused: aud");
  const other = { ...as, issuer: "https://mallory.example" };
  await refused(oauth.processAuthorizationCodeResponse(other, client, response.clone(), check), "");
  passed("refused: iss of the ID token");
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, check);
  await oauth.validateApplicationLevelSignature(as, response, http);
  passed("ID token verified");
  return tokens;
}

await run(async (given) => {
  const issuer = new URL(given.issuer);
  for (const algorithm of ["oidc", "oauth2"]) {
    const found = await oauth.discoveryRequest(issuer, { ...http, algorithm });
    await oauth.processDiscoveryResponse(issuer, found);
  }
  const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, http));
  const { client_id, client_secret } = given.clients.basic;
  const client = { client_id };
  const auth = oauth.ClientSecretBasic(client_secret);
  const tokens = await signIn(given, as, client, auth);
  const { sub } = oauth.getValidatedIdTokenClaims(tokens);

  const info = await oauth.userInfoRequest(as, client, tokens.access_token, http);
  const who = await oauth.processUserInfoResponse(as, client, sub, info.clone());
  assert(who.email === given.email, "userinfo says who it is");
  await refused(oauth.processUserInfoResponse(as, client, "somebody else", info), "");
  passed("userinfo");

  const again = await oauth.refreshTokenGrantRequest(as, client, auth, tokens.refresh_token, http);
  const next = await oauth.processRefreshTokenResponse(as, client, again);
  passed("refreshed");

  const bearer = `Bearer ${next.access_token}`;
  const claims = await checkedByApi(given, as, bearer);
  assert(claims.sub === sub && claims.client_id === client_id, "the API knows who comes, and by which client");
  await refused(checkedByApi(given, as, bearer, "https://other.example"), "");
  await refused(checkedByApi(given, as, `Bearer ${next.id_token}`), "");
  passed("access token verified by an API");
  if (as.dpop_signing_alg_values_supported) {
    await refused(checkedByApi(given, as, bearer, given.issuer, { requireDPoP: true }), "");
  }

  const introspected = async () => {
    const asked = await oauth.introspectionRequest(as, client, auth, next.access_token, http);
    return await oauth.processIntrospectionResponse(as, client, asked);
  };
  const said = await introspected();
  assert(said.active && said.sub === sub, "active");
  const ended = await oauth.revocationRequest(as, client, auth, next.refresh_token, http);
  await oauth.processRevocationResponse(ended);
  await soon(async () => !(await introspected()).active, "revoked");
  passed("revoked");
});
