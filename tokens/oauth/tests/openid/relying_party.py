"""A client as the conformance suite plays it: what it asks for, and what it checks in every answer."""

import base64
import hashlib
import secrets
import time
from typing import Any, Final
from urllib.parse import quote_plus

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet

from tokens.oauth.tests.openid.browser import Answer, Browser
from tokens.oauth.tests.openid.site import CALLBACK, ISSUER, Site

#: Bytes of randomness that the suite asks of a code and an access token: 128 bits.
ENTROPY_BYTES: Final = 16
LEEWAY_S: Final = 60
#: What a header calls a setting's value.
_ALGORITHM: Final = {"ed25519": "EdDSA"}


class RelyingParty:
    """A client of the server.

    Attributes:
        mode: The response mode that it asks for; "" for none.
        post: Whether it sends its secret in the body.
    """

    #: What the token endpoint calls its access tokens.
    token_type = "bearer"

    def __init__(self, site: Site, *, mode: str = "", post: bool = False, **fields: Any) -> None:
        self.http = site.new_http()
        self.mode = mode
        self.post = post
        self.metadata: dict[str, Any] = self.http.get("/.well-known/openid-configuration").json()
        made = self.make(site, **fields)
        self.client_id: str = made["client_id"]
        self.secret: str = made["client_secret"] or ""
        self.id_token_alg: str = _ALGORITHM.get(made["id_token_alg"], made["id_token_alg"])
        response_alg: str = made["authorization_signed_response_alg"]
        self.response_alg = _ALGORITHM.get(response_alg, response_alg)

    def make(self, site: Site, **fields: Any) -> dict[str, Any]:
        """Make the client; return what the API says of it."""
        return site.make_client(**fields)

    def request(self, **changes: str | None) -> dict[str, str]:
        """Return the parameters of an authorization request; a change to None leaves one out."""
        asked = {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid",
            "state": secrets.token_urlsafe(8),
            "nonce": secrets.token_urlsafe(8),
            "response_mode": self.mode or None,
            **changes,
        }
        return {name: value for name, value in asked.items() if value is not None}

    def authorize(self, browser: Browser, asked: dict[str, str], **how: Any) -> str:
        """Send the person through our pages; return the code, of an answer that was checked."""
        answered = self.checked(browser.authorize(asked, **how), asked)
        assert set(answered) <= {"code", "state", "iss"}, answered
        assert len(answered["code"]) >= ENTROPY_BYTES * 4 / 3
        return answered["code"]

    def refused(self, answer: Answer, asked: dict[str, str], *errors: str) -> None:
        """Check that the answer is one of these errors."""
        answered = self.checked(answer, asked)
        assert answered["error"] in errors, answered
        assert set(answered) <= {"error", "error_description", "error_uri", "state", "iss"}

    def checked(self, answer: Answer, asked: dict[str, str]) -> dict[str, str]:
        """Return the parameters of an answer that came where and how it was asked for, by this server."""
        assert answer.where == asked.get("redirect_uri", CALLBACK)
        assert answer.mode == (self.mode.removesuffix("jwt").removesuffix(".") or "query")
        told = self._opened(answer.parameters) if self.mode.endswith("jwt") else answer.parameters
        assert told.get("state") == asked.get("state")
        assert told["iss"] == self.metadata["issuer"]  # RFC 9207
        return told

    def _opened(self, parameters: dict[str, str]) -> dict[str, str]:
        """Return what a signed answer says (JARM §2.4)."""
        assert set(parameters) == {"response"}, parameters
        keys = KeySet.import_key_set(self.http.get(self.path("jwks_uri")).json())
        token = jwt.decode(parameters["response"], keys, algorithms=[self.response_alg])
        assert token.claims["aud"] in (self.client_id, [self.client_id])
        assert time.time() < token.claims["exp"] <= time.time() + 600 + LEEWAY_S
        return {name: value for name, value in token.claims.items() if name not in ("aud", "exp", "iat")}

    def token(self, **parameters: str) -> httpx.Response:
        """Ask the token endpoint, with the secret."""
        headers = {}
        if self.post:
            parameters |= {"client_id": self.client_id, "client_secret": self.secret}
        else:
            joined = f"{quote_plus(self.client_id)}:{quote_plus(self.secret)}"
            headers = {"Authorization": f"Basic {base64.b64encode(joined.encode()).decode()}"}
        return self.http.post(self.path("token_endpoint"), data=parameters, headers=headers)

    def redeem(self, code: str, **more: str) -> httpx.Response:
        """Exchange a code."""
        given = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        return self.token(**{**given, **more})

    def tokens(self, answer: httpx.Response) -> dict[str, Any]:
        """Return the tokens of an answer that was checked (RFC 6749 §5.1)."""
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].split(";")[0] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        said: dict[str, Any] = answer.json()
        assert said["token_type"].lower() == self.token_type
        assert isinstance(said["expires_in"], int)
        assert said["expires_in"] > 0
        assert len(said["access_token"]) >= ENTROPY_BYTES * 4 / 3
        return said

    def sign_in(self, browser: Browser, **changes: str | None) -> dict[str, Any]:
        """Walk through the whole flow; return the tokens, and the verified claims of the ID token as ``claims``."""
        asked = self.request(**changes)
        said = self.tokens(self.redeem(self.authorize(browser, asked)))
        return {**said, "claims": self.id_claims(said, asked.get("nonce"))}

    def id_claims(self, said: dict[str, Any], *nonces: str | None) -> dict[str, Any]:
        """Return the claims of an ID token that was verified against the served key set (Core §3.1.3.7)."""
        keys = KeySet.import_key_set(self.http.get(self.path("jwks_uri")).json())
        token = jwt.decode(said["id_token"], keys, algorithms=[self.id_token_alg])
        assert token.header["alg"] == self.id_token_alg
        assert token.header["kid"] in {key.kid for key in keys.keys}
        claims = dict(token.claims)
        now = time.time()
        assert claims["iss"] == self.metadata["issuer"] == ISSUER
        assert claims["aud"] in (self.client_id, [self.client_id])
        assert claims.get("azp", self.client_id) == self.client_id
        assert now - LEEWAY_S < claims["iat"] <= now + LEEWAY_S
        assert now < claims["exp"] < now + 86_400
        assert claims.get("nonce") in nonces
        assert 0 < len(claims["sub"]) <= 255
        hashed = hashlib.sha512 if self.id_token_alg == "EdDSA" else hashlib.sha256  # that of the algorithm
        digest = hashed(said["access_token"].encode()).digest()
        assert claims["at_hash"] == base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()
        return claims

    def userinfo(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return what userinfo says of the person; the ID token names the same one."""
        answer = self.ask(said)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].split(";")[0] == "application/json"
        claims: dict[str, Any] = answer.json()
        assert claims["sub"] == said["claims"]["sub"]
        return claims

    def ask(self, said: dict[str, Any], method: str = "GET") -> httpx.Response:
        """Ask userinfo with the access token in the header."""
        headers = {"Authorization": f"Bearer {said['access_token']}"}
        return self.http.request(method, self.path("userinfo_endpoint"), headers=headers)

    def path(self, member: str) -> str:
        """Return an address that the metadata names."""
        return str(self.metadata[member])


def error_of(answer: httpx.Response, *errors: str) -> None:
    """Check that an endpoint answers one of these errors (RFC 6749 §5.2)."""
    assert answer.status_code in ((400, 401) if "invalid_client" in errors else (400,)), answer.text
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    said = answer.json()
    assert set(said) <= {"error", "error_description", "error_uri"}
    assert said["error"] in errors, said
    assert all(" " <= character <= "~" and character not in '"\\' for character in said.get("error_description", ""))


def invalid_grant(answer: httpx.Response) -> None:
    """Check that the token endpoint refuses a code or a refresh token."""
    error_of(answer, "invalid_grant")
