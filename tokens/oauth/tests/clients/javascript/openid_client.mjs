// openid-client: everything a relying party does, for each way to prove who it is and each algorithm.
import { assert, passed, refused, run, soon, visit } from "./conversation.mjs";
const oidc = await import("openid-client"); // after conversation.mjs has made Node.js 18 ready for it
const { decodeProtectedHeader, importJWK } = await import("jose");

const SCOPE = "openid profile email offline_access";
const SIGNED = { es256: "ES256", rs256: "RS256" };

async function configure(given, client, auth) {
  return await oidc.discovery(new URL(given.issuer), client.client_id, {}, auth, {
    execute: [oidc.allowInsecureRequests, oidc.enableNonRepudiationChecks],
  });
}

/** A new request and what its answer is checked against. */
async function request(given, changes = {}) {
  const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
  const expectedState = oidc.randomState();
  const expectedNonce = oidc.randomNonce();
  const parameters = {
    redirect_uri: given.redirect_uri,
    scope: SCOPE,
    state: expectedState,
    nonce: expectedNonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: "S256",
    ...changes,
  };
  return { parameters, checks: { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true } };
}

/** Sign in to the end: tokens whose ID token has been verified, and whose person userinfo knows. */
async function signIn(given, config, { pushed = false, changes = {}, dpop } = {}) {
  const { parameters, checks } = await request(given, changes);
  const build = pushed ? oidc.buildAuthorizationUrlWithPAR : oidc.buildAuthorizationUrl;
  const callback = await visit(await build(config, parameters, { DPoP: dpop }));
  const tokens = await oidc.authorizationCodeGrant(config, callback, checks, undefined, { DPoP: dpop });
  const { sub } = tokens.claims();
  const who = await oidc.fetchUserInfo(config, tokens.access_token, sub, { DPoP: dpop });
  assert(who.email === given.email && who.name === "Mia", "userinfo says who it is");
  return tokens;
}

async function life(given, config) {
  const tokens = await signIn(given, config);
  const next = await oidc.refreshTokenGrant(config, tokens.refresh_token);
  assert(next.refresh_token !== tokens.refresh_token, "refresh tokens rotate");
  assert(next.claims().sub === tokens.claims().sub, "the same person after a refresh");
  return next;
}

async function introspectAndRevoke(config, tokens) {
  const before = await oidc.tokenIntrospection(config, tokens.access_token);
  assert(before.active === true && before.client_id === config.clientMetadata().client_id, "active");
  await oidc.tokenRevocation(config, tokens.refresh_token);
  await soon(async () => !(await oidc.tokenIntrospection(config, tokens.access_token)).active, "revoked");
  await refused(oidc.refreshTokenGrant(config, tokens.refresh_token), "invalid_grant");
}

async function signOut(given, config) {
  const tokens = await signIn(given, config, { changes: { scope: "openid email profile" } });
  const url = oidc.buildEndSessionUrl(config, {
    post_logout_redirect_uri: given.gone, id_token_hint: tokens.id_token, state: "bye",
  });
  const where = await visit(url);
  assert(where.href === `${given.gone}?state=bye`, where.href);
  const known = () => oidc.fetchUserInfo(config, tokens.access_token, tokens.claims().sub).then(() => true, () => false);
  await soon(async () => !(await known()), "a session of the browser ends with it");
  const silent = await request(given, { prompt: "none" });
  const callback = await visit(oidc.buildAuthorizationUrl(config, silent.parameters));
  await refused(oidc.authorizationCodeGrant(config, callback, silent.checks), "login_required");
}

async function refusals(given, config) {
  const asked = await request(given, { prompt: "consent" });
  const denied = await visit(oidc.buildAuthorizationUrl(config, asked.parameters), "deny");
  assert(denied.searchParams.get("iss") === given.issuer, "a refusal says who refuses (RFC 9207)");
  assert(denied.searchParams.get("state") === asked.checks.expectedState, "a refusal answers this request");
  await refused(oidc.authorizationCodeGrant(config, denied, asked.checks), "access_denied");
  for (const [wrong, reason, spoil] of [
    ["nonce", "OAUTH_JWT_CLAIM_COMPARISON_FAILED", (_, checks) => { checks.expectedNonce = "another"; }],
    ["state", "OAUTH_INVALID_RESPONSE", (_, checks) => { checks.expectedState = "another"; }],
    ["iss", "OAUTH_INVALID_RESPONSE", (url) => url.searchParams.set("iss", "https://mallory.example")],
    ["no iss", "OAUTH_INVALID_RESPONSE", (url) => url.searchParams.delete("iss")],
    ["verifier", "invalid_grant", (_, checks) => { checks.pkceCodeVerifier = oidc.randomPKCECodeVerifier(); }],
    ["code", "invalid_grant", (url) => url.searchParams.set("code", "A".repeat(43))],
  ]) {
    const { parameters, checks } = await request(given);
    const callback = await visit(oidc.buildAuthorizationUrl(config, parameters));
    spoil(callback, checks);
    await refused(oidc.authorizationCodeGrant(config, callback, checks), reason);
    passed(`refused: ${wrong}`);
  }
}

async function device(given, config) {
  const started = await oidc.initiateDeviceAuthorization(config, { scope: SCOPE });
  await visit(started.verification_uri_complete);
  const tokens = await oidc.pollDeviceAuthorizationGrant(config, { ...started, interval: 1 });
  await oidc.fetchUserInfo(config, tokens.access_token, tokens.claims().sub);
}

async function bound(given, config) {
  const dpop = oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair("ES256"));
  const tokens = await signIn(given, config, { dpop });
  assert(tokens.token_type === "dpop", "bound");
  await refused(oidc.fetchUserInfo(config, tokens.access_token, tokens.claims().sub), "");
  await oidc.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP: dpop });
}

await run(async (given) => {
  const { clients } = given;
  const key = { key: await importJWK(clients.key.private_jwk, "ES256"), kid: clients.key.private_jwk.kid };
  const ways = {
    basic: oidc.ClientSecretBasic(clients.basic.client_secret),
    post: oidc.ClientSecretPost(clients.post.client_secret),
    key: oidc.PrivateKeyJwt(key),
    none: oidc.None(),
    es256: oidc.ClientSecretBasic(clients.es256.client_secret),
    rs256: oidc.ClientSecretBasic(clients.rs256.client_secret),
  };
  for (const [way, auth] of Object.entries(ways)) {
    const config = await configure(given, clients[way], auth);
    const tokens = await life(given, config);
    assert(decodeProtectedHeader(tokens.id_token).alg === (SIGNED[way] ?? "EdDSA"), "signed as the client wants it");
    if (way === "none") await oidc.tokenRevocation(config, tokens.refresh_token);
    else await introspectAndRevoke(config, tokens);
    passed(`life: ${way}`);
  }
  const config = await configure(given, clients.basic, ways.basic);
  const server = config.serverMetadata();
  await refusals(given, config);
  passed("refused: person");
  await signIn(given, config, { pushed: true });
  passed("pushed");
  await signIn(given, await configure(given, clients.par, ways.none), { pushed: true });
  passed("pushed as it must be");
  const wrong = await configure(given, clients.basic, oidc.ClientSecretBasic("wrong"));
  const unknown = await refused(oidc.refreshTokenGrant(wrong, "anything"), "OAUTH_WWW_AUTHENTICATE_CHALLENGE");
  assert(unknown.status === 401 && unknown.cause[0].scheme === "basic", "told how to say who it is");
  passed("refused: secret");
  const robot = await configure(given, clients.robot, oidc.ClientSecretBasic(clients.robot.client_secret));
  const own = await oidc.clientCredentialsGrant(robot, { scope: "reports" });
  assert(own.scope === "reports" && own.refresh_token === undefined, "a token of its own");
  passed("client credentials");
  if (server.device_authorization_endpoint) {
    await device(given, await configure(given, clients.device, ways.none));
    passed("device");
  }
  if (server.dpop_signing_alg_values_supported) {
    await bound(given, await configure(given, clients.none, ways.none));
    passed("dpop");
  }
  await signOut(given, config);
  passed("signed out");
});
