/** base64url (RFC 4648 §5), SHA-256 and JSON objects, as tokens need them. */

import { InvalidToken } from "./errors.js";

export type Json = Record<string, unknown>;

const utf8 = new TextEncoder();

/** Return the base64url text of some bytes. */
export function encode(bytes: ArrayBuffer | Uint8Array): string {
  const view = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
  let binary = "";
  for (const byte of view) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** Return the bytes of a base64url text. Throws InvalidToken where it is none. */
export function decode(text: string): Uint8Array<ArrayBuffer> {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) throw new InvalidToken("the token is not base64url");
  try {
    return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    throw new InvalidToken("the token is not base64url");
  }
}

/** Return the object that a part of a token says. Throws InvalidToken where it is none. */
export function jsonPart(text: string): Json {
  let found: unknown;
  try {
    found = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(decode(text)));
  } catch {
    throw new InvalidToken("the token has a part that is no JSON");
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new InvalidToken("the token has a part that is no object");
  }
  return found as Json;
}

export function jsonText(value: Json): string {
  return encode(utf8.encode(JSON.stringify(value)));
}

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return utf8.encode(text) as Uint8Array<ArrayBuffer>;
}

/** Return the base64url SHA-256 of a text. */
export async function sha256(text: string): Promise<string> {
  return encode(await crypto.subtle.digest("SHA-256", bytesOf(text)));
}

/** Return `size` random bytes as base64url. */
export function random(size = 32): string {
  return encode(crypto.getRandomValues(new Uint8Array(size)));
}

/** Return the thumbprint of a public key (RFC 7638). Throws InvalidToken for a kind that is not known here. */
export async function thumbprint(jwk: Json): Promise<string> {
  const members = { EC: ["crv", "kty", "x", "y"], OKP: ["crv", "kty", "x"] }[String(jwk["kty"])];
  if (members === undefined || members.some((name) => typeof jwk[name] !== "string")) {
    throw new InvalidToken("the key is of a kind that is not known here");
  }
  return sha256(JSON.stringify(Object.fromEntries(members.map((name) => [name, jwk[name]]))));
}
