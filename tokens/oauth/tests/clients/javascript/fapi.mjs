// openid-client and oauth4webapi with clients of the profiles of FAPI 2.0: assertions, pushed requests, DPoP, signed messages.
import { assert, passed, refused, run, visit } from "./conversation.mjs";
const oidc = await import("openid-client"); // after conversation.mjs has made Node.js 18 ready for it
const oauth = await import("oauth4webapi");
const { decodeProtectedHeader, importJWK } = await import("jose");

const SCOPE = "openid profile email offline_access";
const http = { [oauth.allowInsecureRequests]: true };

async function keyOf(client) {
  return { key: await importJWK(client.private_jwk, client.private_jwk.alg), kid: client.private_jwk.kid };
}

async function configure(given, client, ...more) {
  return await oidc.discovery(new URL(given.issuer), client.client_id, {}, oidc.PrivateKeyJwt(await keyOf(client)), {
    execute: [oidc.allowInsecureRequests, oidc.enableNonRepudiationChecks, ...more],
  });
}

/** A pushed request, by an object where there is a key to sign it, and what its answer is checked against. */
async function pushed(given, config, dpop, signer) {
  const checks = {
    pkceCodeVerifier: oidc.randomPKCECodeVerifier(), expectedState: oidc.randomState(),
    expectedNonce: oidc.randomNonce(), idTokenExpected: true,
  };
  const parameters = {
    redirect_uri: given.redirect_uri, scope: SCOPE, state: checks.expectedState, nonce: checks.expectedNonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(checks.pkceCodeVerifier), code_challenge_method: "S256",
  };
  const asked = signer
    ? (await oidc.buildAuthorizationUrlWithJAR(config, parameters, signer)).searchParams : parameters;
  return { url: await oidc.buildAuthorizationUrlWithPAR(config, asked, { DPoP: dpop }), parameters, checks };
}

async function life(given, config, dpop, signer) {
  const { url, checks } = await pushed(given, config, dpop, signer);
  assert([...url.searchParams.keys()].sort().join() === "client_id,request_uri", "nothing else goes by the browser");
  const callback = await visit(url);
  assert(callback.searchParams.has("response") === Boolean(signer), "signed answers to who signs its requests");
  const tokens = await oidc.authorizationCodeGrant(config, callback, checks, undefined, { DPoP: dpop });
  assert(decodeProtectedHeader(tokens.id_token).alg !== "RS256" && tokens.token_type === "dpop", "as the profile has it");
  const { sub } = tokens.claims();
  const who = await oidc.fetchUserInfo(config, tokens.access_token, sub, { DPoP: dpop });
  assert(who.email === given.email, "userinfo says who it is");
  return tokens;
}

async function afterwards(config, tokens, dpop) {
  const { sub } = tokens.claims();
  await refused(oidc.fetchUserInfo(config, tokens.access_token, sub), "");
  await oidc.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP: dpop });
  const again = await oidc.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP: dpop });
  assert(again.claims().sub === sub, "an answer that was lost is asked for again");
  await refused(oidc.refreshTokenGrant(config, again.refresh_token), "invalid_request");
  const said = await oidc.tokenIntrospection(config, again.access_token);
  assert(said.active && said.cnf.jkt, "bound to the key");
  await oidc.tokenRevocation(config, again.refresh_token);
  await refused(oidc.refreshTokenGrant(config, again.refresh_token, undefined, { DPoP: dpop }), "invalid_grant");
}

async function wrongs(given, config, dpop) {
  const other = oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair("ES256"));
  const { url, parameters, checks } = await pushed(given, config, dpop);
  const code = oidc.authorizationCodeGrant(config, await visit(url), checks, undefined, { DPoP: other });
  await refused(code, "invalid_grant");
  passed("refused: another key");
  const open = await visit(oidc.buildAuthorizationUrl(config, parameters));
  assert(open.searchParams.get("error") === "invalid_request", open.href);
  passed("refused: not pushed");
}

/** oauth4webapi: the same in its single steps. */
async function steps(given, client) {
  const issuer = new URL(given.issuer);
  const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, http));
  const me = { client_id: client.client_id };
  const auth = oauth.PrivateKeyJwt(await keyOf(client));
  const options = { ...http, DPoP: oauth.DPoP(me, await oauth.generateKeyPair("ES256")) };
  const [verifier, state, nonce] = [
    oauth.generateRandomCodeVerifier(), oauth.generateRandomState(), oauth.generateRandomNonce(),
  ];
  const kept = await oauth.pushedAuthorizationRequest(as, me, auth, {
    client_id: client.client_id, redirect_uri: given.redirect_uri, response_type: "code", scope: SCOPE, state, nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
  }, options);
  const { request_uri } = await oauth.processPushedAuthorizationResponse(as, me, kept);
  const url = new URL(as.authorization_endpoint);
  url.search = new URLSearchParams({ client_id: client.client_id, request_uri });
  const answered = oauth.validateAuthResponse(as, me, await visit(url), state);
  const response = await oauth.authorizationCodeGrantRequest(
    as, me, auth, answered, given.redirect_uri, verifier, options,
  );
  const checks = { expectedNonce: nonce, requireIdToken: true };
  const tokens = await oauth.processAuthorizationCodeResponse(as, me, response, checks);
  await oauth.validateApplicationLevelSignature(as, response, http);
  const { sub } = oauth.getValidatedIdTokenClaims(tokens);
  const info = await oauth.userInfoRequest(as, me, tokens.access_token, options);
  assert((await oauth.processUserInfoResponse(as, me, sub, info)).email === given.email, "userinfo says who it is");
}

await run(async (given) => {
  for (const [name, client] of Object.entries(given.clients)) {
    const config = await configure(given, client);
    const dpop = oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair("ES256"));
    await afterwards(config, await life(given, config, dpop), dpop);
    passed(`fapi2: ${name}`);
  }
  const config = await configure(given, given.clients.PS256);
  await wrongs(given, config, oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair("ES256")));
  await steps(given, given.clients.ES256);
  passed("fapi2: oauth4webapi");
  const signed = await configure(given, given.signed, oidc.useJwtResponseMode);
  const dpop = oidc.getDPoPHandle(signed, await oidc.randomDPoPKeyPair("PS256"));
  await afterwards(signed, await life(given, signed, dpop, await keyOf(given.signed)), dpop);
  passed("fapi2-message-signing");
  await refused(pushed(given, signed, dpop), "invalid_request");
  passed("refused: not signed");
});
