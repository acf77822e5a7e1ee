// The verifier with a fake server: what it accepts, and each thing it refuses.
import assert from "node:assert/strict";
import test from "node:test";
import { InsufficientScope, InvalidProof, InvalidToken, MemoryReplayStore, ProviderUnavailable, Verifier } from "../dist/verify.js";

const ISSUER = "https://id.example.test";
const API = "https://api.example.test/orders";
const text = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const ed25519 = () => crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
const p256 = () => crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);

async function jws(header, claims, pair) {
  const signed = `${text(header)}.${text(claims)}`;
  const { name } = pair.privateKey.algorithm;
  const how = name === "ECDSA" ? { name, hash: "SHA-256" } : { name };
  return `${signed}.${Buffer.from(await crypto.subtle.sign(how, pair.privateKey, Buffer.from(signed))).toString("base64url")}`;
}

class FakeServer {
  now = 2_000_000_000;
  asked = [];
  down = false;
  static async make() {
    const server = new FakeServer();
    server.pair = await ed25519();
    const { kty, crv, x } = await crypto.subtle.exportKey("jwk", server.pair.publicKey);
    server.keys = [{ kty, crv, x, kid: "1", alg: "EdDSA", use: "sig" }];
    return server;
  }
  fetch = async (address) => {
    this.asked.push(address);
    if (this.down) throw new TypeError("no route");
    const found = address.endsWith("/keys") ? { keys: this.keys } : { issuer: ISSUER, jwks_uri: `${ISSUER}/keys` };
    return Response.json(found);
  };
  verifier(options = {}) {
    return new Verifier({ issuer: ISSUER, fetch: this.fetch, clock: () => this.now, ...options });
  }
  claims(changes = {}) {
    return {
      iss: ISSUER, aud: ISSUER, sub: "person-1", client_id: "web", jti: "t1", sid: "s1", scope: "openid orders:read",
      iat: this.now, exp: this.now + 600, epoch: 0, roles: [], ...changes,
    };
  }
  token(changes = {}, header = {}, pair = this.pair) {
    return jws({ alg: "EdDSA", typ: "at+jwt", kid: "1", ...header }, this.claims(changes), pair);
  }
}

test("a good token is accepted, and its keys are fetched once", async () => {
  const server = await FakeServer.make();
  const verifier = server.verifier();
  for (let round = 0; round < 3; round++) {
    const claims = await verifier.verify(await server.token(), { scopes: ["orders:read"] });
    assert.equal(claims.subject, "person-1");
    assert.deepEqual([...claims.scopes], ["openid", "orders:read"]);
    assert.deepEqual([claims.organizationId, claims.organizationRoles], ["", []]);
  }
  const acting = await verifier.verify(await server.token({ org_id: "o-1", org_roles: ["owner"] }));
  assert.deepEqual([acting.organizationId, acting.organizationRoles], ["o-1", ["owner"]]);
  assert.equal(server.asked.length, 2);
  assert.equal((await verifier.verify(await server.token({ aud: ["x", ISSUER] }))).subject, "person-1");
  assert.equal((await verifier.verify(await server.token({}, { typ: "application/AT+JWT" }))).subject, "person-1");
});

test("a missing scope is 403", async () => {
  const server = await FakeServer.make();
  await assert.rejects(server.verifier().verify(await server.token(), { scopes: ["orders:write"] }), (error) => {
    assert.ok(error instanceof InsufficientScope);
    return error.status === 403 && error.code === "insufficient_scope";
  });
});

test("every wrong claim and header is refused", async () => {
  const server = await FakeServer.make();
  const verifier = server.verifier();
  const claims = [
    { iss: "https://other.example" }, { aud: "other" }, { aud: undefined }, { exp: server.now - 10 }, { exp: "soon" },
    { exp: null }, { iat: server.now + 11 }, { nbf: server.now + 11 }, { sub: undefined }, { sub: 7 }, { sub: "" },
    { jti: undefined }, { client_id: undefined }, { cnf: {} }, { cnf: { "x5t#S256": "a" } }, { cnf: "x" },
    { roles: "admin" }, { roles: [1] }, { org_roles: "owner" }, { org_id: 7 }, { act: { sub: "s", kind: "staff" } }, { act: "s" }, { act: null },
    { act: { sub: "c", act: { sub: "s", kind: "staff" } } },
  ];
  for (const wrong of claims) {
    await assert.rejects(verifier.verify(await server.token(wrong)), InvalidToken, JSON.stringify(wrong));
  }
  const headers = [{ typ: "JWT" }, { typ: undefined }, { alg: "none" }, { alg: "HS256" }, { kid: undefined }, { crit: ["b64"] }];
  for (const wrong of headers) {
    await assert.rejects(verifier.verify(await server.token({}, wrong)), InvalidToken, JSON.stringify(wrong));
  }
  await assert.rejects(verifier.verify(await server.token({}, {}, await ed25519())), InvalidToken);
  const good = await server.token();
  assert.equal((await verifier.verify(await server.token({ act: { sub: "c", act: { sub: "d" } } }))).subject, "person-1");
  for (const wrong of [undefined, "", "a", "a.b", "a.b.c", `${good}.d`, good.slice(0, -6) + "AAAAAA", good + "=", `${"a".repeat(5_000)}.b.c`]) {
    await assert.rejects(verifier.verify(wrong), InvalidToken, String(wrong).slice(0, 20));
  }
});

test("times have a leeway of ten seconds and an end", async () => {
  const server = await FakeServer.make();
  const verifier = server.verifier();
  await verifier.verify(await server.token({ exp: server.now - 9 }));
  await verifier.verify(await server.token({ iat: server.now + 10, nbf: server.now + 10 }));
  await assert.rejects(verifier.verify(await server.token({ exp: server.now - 10 })), InvalidToken);
});

test("a new key is found, and strangers' keys do not make the server busy", async () => {
  const server = await FakeServer.make();
  const verifier = server.verifier();
  await verifier.verify(await server.token());
  const old = server.keys;
  for (let round = 0; round < 20; round++) {
    await assert.rejects(verifier.verify(await server.token({}, { kid: `no ${round}` })), InvalidToken);
  }
  assert.equal(server.asked.length, 2);
  server.now += 31;
  server.keys = [{ ...old[0], kid: "2" }];
  await verifier.verify(await server.token({}, { kid: "2" }));
  assert.equal(server.asked.length, 3);
  await assert.rejects(verifier.verify(await server.token()), InvalidToken); // the old key has gone
});

test("a server that is away is bridged for an hour", async () => {
  const server = await FakeServer.make();
  const verifier = server.verifier();
  await verifier.verify(await server.token());
  server.down = true;
  server.now += 3_599;
  await verifier.verify(await server.token());
  server.now += 1;
  await assert.rejects(verifier.verify(await server.token()), ProviderUnavailable);
  server.down = false;
  server.now += 31;
  await verifier.verify(await server.token());
});

test("an issuer without TLS is refused, but on this machine", () => {
  assert.throws(() => new Verifier({ issuer: "http://id.example.com" }), TypeError);
  assert.ok(new Verifier({ issuer: "http://localhost:8000" }));
});

async function proof(pair, token, changes = {}, header = {}) {
  const { kty, crv, x, y } = await crypto.subtle.exportKey("jwk", pair.publicKey);
  const ath = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(token))).toString("base64url");
  const said = { jti: crypto.randomUUID(), htm: "GET", htu: API, iat: 2_000_000_000, ath, ...changes };
  return jws({ alg: "ES256", typ: "dpop+jwt", jwk: { kty, crv, x, y }, ...header }, said, pair);
}

async function bound(server, pair) {
  const { crv, kty, x, y } = await crypto.subtle.exportKey("jwk", pair.publicKey);
  const jkt = await crypto.subtle.digest("SHA-256", Buffer.from(JSON.stringify({ crv, kty, x, y })));
  return server.token({ cnf: { jkt: Buffer.from(jkt).toString("base64url") } });
}

const request = (token, dpop, more = {}) => ({
  method: "GET", url: `${API}?page=2`, headers: { authorization: `DPoP ${token}`, dpop }, ...more,
});

test("a bound token needs a proof of its key, each of them once", async () => {
  const server = await FakeServer.make();
  const verifier = server.verifier();
  const pair = await p256();
  const token = await bound(server, pair);
  const once = await proof(pair, token);
  assert.equal((await verifier.verifyRequest(request(token, once))).subject, "person-1");
  await assert.rejects(verifier.verifyRequest(request(token, once)), InvalidProof);
  await assert.rejects(verifier.verify(token), InvalidToken);
  await assert.rejects(verifier.verifyRequest(request(token, undefined)), InvalidProof);
  await assert.rejects(
    verifier.verifyRequest({ method: "GET", url: API, headers: { authorization: `Bearer ${token}` } }), InvalidToken,
  );
  const wrong = [
    [{ htm: "POST" }], [{ htu: "https://api.example.test/other" }], [{ ath: "x" }], [{ iat: server.now - 71 }],
    [{ iat: server.now + 11 }], [{ jti: "" }], [{ jti: undefined }], [{}, { typ: "jwt" }], [{}, { alg: "none" }],
  ];
  for (const [changes, header] of wrong) {
    const bad = await proof(pair, token, changes, header);
    await assert.rejects(verifier.verifyRequest(request(token, bad)), InvalidProof, JSON.stringify([changes, header]));
  }
  await assert.rejects(verifier.verifyRequest(request(token, await proof(await p256(), token))), InvalidProof);
  const plain = await server.token();
  await assert.rejects(verifier.verifyRequest(request(plain, await proof(pair, plain))), InvalidToken);
});

test("a full memory of proofs accepts no more until the oldest has ended", () => {
  let now = 0;
  const store = new MemoryReplayStore(2, () => now);
  assert.deepEqual(["a", "b", "a", "c"].map((key) => store.firstUse(key, 10)), [true, true, false, false]);
  now = 10;
  assert.equal(store.firstUse("c", 10), true);
});

test("requests without one token are refused", async () => {
  const server = await FakeServer.make();
  const verifier = server.verifier();
  for (const authorization of [undefined, "", "Basic abc", "Bearer", "Bearer a b", "Bearer  a", ["Bearer a", "Bearer b"]]) {
    await assert.rejects(verifier.verifyRequest({ method: "GET", url: API, headers: { authorization } }), InvalidToken);
  }
  const headers = new Headers({ Authorization: `Bearer ${await server.token()}` });
  assert.equal((await verifier.verifyRequest({ method: "GET", url: API, headers })).subject, "person-1");
});
