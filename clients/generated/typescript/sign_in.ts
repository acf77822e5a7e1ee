// Sign in and ask who that is with the types of openapi-typescript; prints the answer's address and id.
import type { paths } from "./api.js";

declare const process: { argv: string[] };
declare const console: { log(text: string): void };

type SignIn = paths["/api/v1/access/signin"]["post"];
type Me = paths["/api/v1/access/me"]["get"]["responses"][200]["content"]["application/json"];
type Pair = SignIn["responses"][200]["content"]["application/json"];
type Refused = SignIn["responses"][401]["content"]["application/problem+json"];

const [base, email, password] = process.argv.slice(2) as [string, string, string];

async function signIn(body: SignIn["requestBody"]["content"]["application/json"]): Promise<Pair | Refused> {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(`${base}/api/v1/access/signin`, { method: "POST", headers, body: JSON.stringify(body) });
  return (await answer.json()) as Pair | Refused;
}

const refused = await signIn({ email, password: "not that one at all", transport: "body" });
if (!("code" in refused)) throw new Error("a wrong password is not refused");
const code: "invalid_credentials" | "mfa_required" = refused.code;
const pair = await signIn({ email, password, transport: "body" });
if ("code" in pair) throw new Error(pair.detail);
const answer = await fetch(`${base}/api/v1/access/me`, { headers: { Authorization: `Bearer ${pair.access_token}` } });
const me = (await answer.json()) as Me;
console.log(JSON.stringify({ refused: code, email: me.email, id: me.id }));
