// oidc-client-ts with a client of the kind "Single-page app"; its stores are in memory, as there is no browser.
import { assert, passed, refused, run, visit } from "../conversation.mjs";
const { InMemoryWebStorage, OidcClient, WebStorageStateStore } = await import("oidc-client-ts");

await run(async ({ issuer, client_id, redirect_uri, email }) => {
  const stateStore = new WebStorageStateStore({ store: new InMemoryWebStorage() });
  // begin: settings.mjs
  const settings = { authority: issuer, client_id, redirect_uri, scope: "openid profile email", loadUserInfo: true };
  // end
  const client = new OidcClient({ ...settings, stateStore });
  const { url } = await client.createSigninRequest({});
  const callback = (await visit(url)).href;
  assert((await client.processSigninResponse(callback)).profile.email === email, "who it is");
  passed("signed in");
  await refused(client.processSigninResponse(callback), "No matching state");
  passed("refused: an answer seen before");
});
