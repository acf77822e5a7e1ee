"""What an application and a server say to each other while somebody is signed in, whether it is right; the client."""

import base64
import functools
import hashlib
import html
import json
import re
import secrets
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from perf.http_client import Reply
from perf.rig.site_setup import prepare

FETCH_S: Final = 5.0
SCOPE: Final = "email offline_access openid profile"
REDIRECT_URI: Final = "https://app.bench.example/callback"
_SEALED: Final = re.compile(rb'action="/oauth/signin">\s*<input type="hidden" name="request" value="([^"]+)"')


class Wrong(Exception):
    """An answer that is not what it must be; the message says in what, without any value."""


class Application(msgspec.Struct, frozen=True):
    """The client, confidential, and what it knows of the server: its origin, and its RSA keys (DER) by their ids."""

    client_id: str
    client_secret: str
    issuer: str
    keys: Mapping[str, bytes]

    @property
    def credentials(self) -> dict[str, str]:
        """What the body of its requests says about it."""
        return {"client_id": self.client_id, "client_secret": self.client_secret}


class Asking(msgspec.Struct, frozen=True):
    """What one authorization request says that no other says."""

    verifier: str
    state: str
    nonce: str

    @classmethod
    def anew(cls) -> Self:
        """Draw the three."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    def target(self, application: Application) -> str:
        """Return where the browser is sent: an authorization request with PKCE (RFC 7636 §4)."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": application.client_id, "redirect_uri": REDIRECT_URI,
            "scope": SCOPE, "state": self.state, "nonce": self.nonce,
            "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        return f"/oauth/authorize?{urlencode(query)}"

    def grant(self, code: str) -> dict[str, str]:
        """Return what exchanges ``code`` for tokens, but for the client's credentials."""
        return {
            "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI,
            "code_verifier": self.verifier,
        }  # fmt: skip


class Tokens(msgspec.Struct):
    """The answer of the token endpoint."""

    access_token: str
    token_type: str
    expires_in: int
    scope: str
    refresh_token: str
    id_token: str


def sealed_in(page: Reply) -> str:
    """Return the hidden value of the sign-in form. Raises ``Wrong`` for a page without, or one that may be framed."""
    found = _SEALED.search(page.body)
    if found is None or not page.field("content-type").startswith("text/html"):
        raise Wrong("authorize: no sign-in form")
    if "frame-ancestors 'none'" not in page.field("content-security-policy"):
        raise Wrong("authorize: a page that may be framed")
    if not any(name.endswith("authorize") for name in page.cookies()):
        raise Wrong("authorize: no cookie for this browser")
    return html.unescape(found[1].decode())


def code_in(answer: Reply, *, state: str, issuer: str) -> str:
    """Return the code of a sign-in. Raises ``Wrong`` unless it leads back as it must, with a cookie for the next."""
    code = code_led_back(answer, state, issuer)
    if not any(name.endswith("sso") for name in answer.cookies()):
        raise Wrong("sign-in: no SSO cookie")
    return code


def code_led_back(answer: Reply, state: str, issuer: str) -> str:
    """Return the code of a redirect. Raises ``Wrong`` unless it leads to the client with code, state and iss alone."""
    where = urlsplit(answer.field("location"))
    told = dict(parse_qsl(where.query, strict_parsing=True)) if where.query else {}
    if f"{where.scheme}://{where.netloc}{where.path}" != REDIRECT_URI or where.fragment:
        raise Wrong("sign-in: a redirect to elsewhere")
    if set(told) != {"code", "state", "iss"} or told["state"] != state or told["iss"] != issuer:
        raise Wrong("sign-in: not code, state and iss")
    return told["code"]


def tokens_in(reply: Reply, step: str) -> Tokens:
    """Return the tokens of an answer. Raises ``Wrong``."""
    try:
        tokens = msgspec.json.decode(reply.body, type=Tokens)
    except msgspec.DecodeError as error:
        raise Wrong(f"{step}: not the tokens") from error
    if tokens.token_type != "Bearer" or tokens.scope != SCOPE or tokens.expires_in <= 0:  # noqa: S105 - no secret
        raise Wrong(f"{step}: other tokens than were asked for")
    return tokens


def subject_in(id_token: str, application: Application, *, nonce: str) -> str:
    """Return the subject of an ID token. Raises ``Wrong`` unless its signature, issuer, audience and nonce are right.

    ``nonce`` "": that of a refresh, which has none (OpenID Connect Core §12.2).
    """
    signed, _, signature = id_token.rpartition(".")
    try:
        header, claims = (msgspec.json.decode(_decoded(part)) for part in signed.split("."))
        key = _public_key(application.keys[header["kid"]])
        key.verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())  # RS256
    except (ValueError, KeyError, InvalidSignature) as error:
        raise Wrong("an ID token whose signature does not verify") from error
    told = (claims.get("iss"), claims.get("aud"), claims.get("nonce", ""))
    if told != (application.issuer, application.client_id, nonce):
        raise Wrong("an ID token with another issuer, audience or nonce")
    return str(claims["sub"])


def check_introspection(reply: Reply, application: Application, subject: str) -> None:
    """Raise ``Wrong`` unless the answer is an active token's of this client and person."""
    said: Any = msgspec.json.decode(reply.body)
    told = {name: said.get(name) for name in ("active", "client_id", "sub", "scope", "token_type", "iss")}
    wanted = {
        "active": True, "client_id": application.client_id, "sub": subject, "scope": SCOPE, "token_type": "Bearer",
        "iss": application.issuer,
    }  # fmt: skip
    if told != wanted:
        raise Wrong("introspect: not what was issued")


@functools.cache
def _public_key(der: bytes) -> rsa.RSAPublicKey:
    key = serialization.load_der_public_key(der)
    if not isinstance(key, rsa.RSAPublicKey):
        raise TypeError(f"no RSA key: {type(key).__name__}")
    return key


def _der(jwk: Mapping[str, str]) -> bytes:
    """Return a published RSA key (RFC 7518 §6.3) in the form that is kept."""
    exponent, modulus = (int.from_bytes(_decoded(jwk[member])) for member in ("e", "n"))
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return rsa.RSAPublicNumbers(exponent, modulus).public_key().public_bytes(serialization.Encoding.DER, spki)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def make_client(environment: Mapping[str, str]) -> dict[str, str]:
    """Make the client as an operator does, and return what the command prints; people need not consent to it.

    Raises:
        StartError: the command failed.
    """
    named = ["--name", "Benchmark", "--trusted", "--redirect-uri", REDIRECT_URI]
    made: dict[str, str] = json.loads(prepare(["manage.py", "oauth_client", "create", *named], environment))
    return made


def application_of(host: str, issuer: str, client: Mapping[str, str]) -> Application:
    """Return what the client knows once it has read the server's keys. Raises ``OSError`` where there is none."""
    with urllib.request.urlopen(f"http://{host}/.well-known/jwks.json", timeout=FETCH_S) as answer:
        return application_with(json.load(answer), issuer, client)


def application_with(published: Mapping[str, Any], issuer: str, client: Mapping[str, str]) -> Application:
    """Return what the client knows once it has the server's keys, as the server has ``published`` them."""
    keys = {one["kid"]: _der(one) for one in published["keys"] if one["kty"] == "RSA"}
    return Application(client["client_id"], client["client_secret"], issuer, keys)
