// AppAuth-JS with a client of the kind "Native app": its flow for programs of Node.js.
import { register } from "node:module";
import { assert, passed, refused, run, visit } from "../../javascript/conversation.mjs";

// Its modules leave out how their files end, which bundlers find; and it opens a browser by the package `opener`.
console.log = console.error; // it tells all that it does
register("./appauth-loader.mjs", import.meta.url);
const appauth = await import("@openid/appauth");
const { NodeCrypto, NodeRequestor, NodeBasedHandler } = await import("@openid/appauth/built/src/node_support/index.js");

await run(async ({ issuer, client_id, redirect_uri, email }) => {
  let returned;
  globalThis.openBrowser = (url) => (returned = visit(url).then((back) => fetch(back)));
  const port = Number(new URL(redirect_uri).port);
  // begin: signin.js
  const requestor = new NodeRequestor();
  const server = await appauth.AuthorizationServiceConfiguration.fetchFromIssuer(issuer, requestor);
  const tokens = new appauth.BaseTokenRequestHandler(requestor);

  function signIn() {
    const notifier = new appauth.AuthorizationNotifier();
    const browser = new NodeBasedHandler(port);
    browser.setAuthorizationNotifier(notifier);
    const scope = "openid profile email offline_access";
    const asked = new appauth.AuthorizationRequest(
      { client_id, redirect_uri, scope, response_type: "code" },
      new NodeCrypto(),
    );
    return new Promise((resolve, reject) => {
      notifier.setAuthorizationListener((request, answer, error) => {
        if (error) return reject(new Error(error.error));
        const extras = { code_verifier: request.internal.code_verifier };
        resolve({ client_id, redirect_uri, grant_type: "authorization_code", code: answer.code, extras });
      });
      browser.performAuthorizationRequest(server, asked);
    });
  }

  const redeem = (request) => tokens.performTokenRequest(server, new appauth.TokenRequest(request));
  // end
  const request = await signIn();
  await returned;
  const said = await redeem(request);
  const headers = { Authorization: `Bearer ${said.accessToken}` };
  assert((await (await fetch(server.userInfoEndpoint, { headers })).json()).email === email, "who it is");
  passed("signed in");
  const renew = (refresh_token) => redeem({ client_id, redirect_uri, grant_type: "refresh_token", refresh_token });
  const renewed = await renew(said.refreshToken);
  assert(renewed.accessToken !== said.accessToken && renewed.refreshToken !== said.refreshToken, "renewed");
  passed("refreshed");
  const over = new appauth.RevokeTokenRequest({ token: renewed.refreshToken, client_id });
  assert(await tokens.performRevokeTokenRequest(server, over), "revoked");
  await refused(renew(renewed.refreshToken), "Bad Request");
  passed("revoked");
  await refused(redeem(request), "Bad Request");
  passed("refused: a code used twice");
});
