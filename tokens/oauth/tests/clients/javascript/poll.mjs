// jose: verifies one token a line, by a key set it fetches as often as it wants, and says what came of it.
import { hear, run, say } from "./conversation.mjs";
const { createRemoteJWKSet, jwtVerify } = await import("jose");

await run(async ({ issuer, jwks_uri, max_age_s }) => {
  const keys = createRemoteJWKSet(new URL(jwks_uri), { cacheMaxAge: max_age_s * 1000 });
  for (let token = await hear(); token !== undefined; token = await hear()) {
    say(await jwtVerify(token, keys, { issuer }).then(() => "", String));
  }
});
