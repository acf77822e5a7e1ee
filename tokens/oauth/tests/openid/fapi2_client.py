"""A client of the profile fapi2 as the conformance suite plays it: pushed requests, signed assertions, bound tokens."""

import secrets
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tokens.oauth.tests.openid.browser import Browser
from tokens.oauth.tests.openid.relying_party import RelyingParty
from tokens.oauth.tests.openid.site import CALLBACK, ISSUER, Site
from tokens.oauth.tests.proofs import Key, new_key, proof
from tokens.oauth.tests.walk import CHALLENGE, VERIFIER

TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFE_S: Final = 60
SCOPES: Final = ["openid", "profile", "email", "offline_access"]
PREFIX: Final = "urn:ietf:params:oauth:request_uri:"


@cache
def key_pair(alg: str, number: int = 0) -> Key:
    """Return a key pair for an algorithm; the same for the same number, because an RSA key takes its time."""
    if alg == "ES256":
        return ECKey.generate_key("P-256")
    return OKPKey.generate_key("Ed25519") if alg == "EdDSA" else RSAKey.generate_key(2048)


class Fapi2Client(RelyingParty):
    """A client that proves who it is by an assertion, and has its tokens bound to a key.

    Attributes:
        alg: What signs its assertions, and its requests where it signs them.
        signed: Whether it does (RFC 9101); and has answers signed, by the mode that its plan asks for.
        key: Its key for them.
        holder: The key that its tokens are bound to.
        holder_alg: What signs proofs of it.
    """

    token_type = "dpop"

    def __init__(
        self,
        site: Site,
        *,
        alg: str = "PS256",
        number: int = 0,
        with_alg: bool = True,
        signed: bool = False,
        **fields: Any,
    ) -> None:
        self.alg = alg
        self.signed = signed
        self.key = key_pair(alg, number)
        self.holder: Key = new_key()
        self.holder_alg = "ES256"
        public = {**self.key.as_dict(private=False), "kid": f"{alg}-{number}", **({"alg": alg} if with_alg else {})}
        signs = {"profile": "fapi2-message-signing", "request_object_signing_alg": alg} if signed else {}
        given = {"profile": "fapi2", "jwks": {"keys": [public]}, "scopes": SCOPES, **signs, **fields}
        super().__init__(site, **given)

    # ------------------------------------------------------------ what proves the client, and its key
    def assertion(self, *, alg: str = "", key: Key | None = None, **changes: Any) -> str:
        """Return an assertion; a change to None leaves a claim out."""
        now = int(time.time())
        claims = {
            "iss": self.client_id, "sub": self.client_id, "aud": ISSUER, "jti": secrets.token_urlsafe(16),
            "iat": now, "exp": now + LIFE_S, **changes,
        }  # fmt: skip
        used = alg or self.alg
        said = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": used}, said, key or self.key, algorithms=[used])

    def authenticated(self, **changes: Any) -> dict[str, str]:
        """Return what a request has in its body to prove the client."""
        return {"client_assertion": self.assertion(**changes), "client_assertion_type": TYPE}

    def proven(self, method: str, path: str, *, key: Key | None = None, **changes: Any) -> str:
        """Return a proof of a key, the client's own unless another is given."""
        alg = "ES256" if key else self.holder_alg
        header = {"alg": alg, **changes.pop("header", {})}
        return proof(key or self.holder, method, path, header=header, **{"htu": f"{ISSUER}{path}", **changes})

    def request_object(self, asked: Mapping[str, Any], *, alg: str = "", key: Key | None = None, **changes: Any) -> str:
        """Return a request object of the parameters (RFC 9101 §4); a change to None leaves a claim out."""
        now = int(time.time())
        claims = {**asked, "iss": self.client_id, "aud": ISSUER, "iat": now, "nbf": now, "exp": now + LIFE_S, **changes}
        used = alg or self.alg
        said = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": used, "typ": "oauth-authz-req+jwt"}
        return jwt.encode(header, said, key or self.key, algorithms=[used])

    # ------------------------------------------------------------ requests
    def request(self, **changes: str | None) -> dict[str, str]:
        """Return the parameters of a request that is pushed; with PKCE."""
        return super().request(**{"code_challenge": CHALLENGE, "code_challenge_method": "S256", **changes})

    def push(
        self, asked: dict[str, str], *, dpop: str = "", known: dict[str, str] | None = None, method: str = "POST"
    ) -> httpx.Response:
        """Push a request.

        Args:
            asked: The parameters.
            dpop: A proof; "" for none.
            known: What proves the client; a good assertion unless it is given.
            method: Of the request.
        """
        wanted = asked
        if self.signed and "request" not in asked:  # what refers to another request stands beside it
            outside = {name: asked[name] for name in ("request_uri",) if name in asked}
            inside = {name: value for name, value in asked.items() if name not in outside}
            wanted = {"client_id": self.client_id, "request": self.request_object(inside), **outside}
        body = {**wanted, **(self.authenticated() if known is None else known)}
        headers = {"DPoP": dpop} if dpop else {}
        path = self.path("pushed_authorization_request_endpoint")
        return self.http.request(method, path, data=body, headers=headers)

    def pushed(self, asked: dict[str, str], **how: Any) -> str:
        """Push a request that is accepted; return its handle."""
        answer = self.push(asked, **how)
        assert answer.status_code == 201, answer.text
        assert answer.headers["content-type"].split(";")[0] == "application/json"
        said = answer.json()
        assert 5 <= said["expires_in"] <= 600
        assert len(said["request_uri"]) > len(PREFIX) + 20
        return str(said["request_uri"])

    def link(self, request_uri: str, **more: str) -> dict[str, str]:
        """Return the parameters that the browser brings."""
        return {"client_id": self.client_id, "request_uri": request_uri, **more}

    def code(self, browser: Browser, asked: dict[str, str] | None = None, **how: Any) -> str:
        """Push a request and send the person with it; return the code."""
        wanted = self.request() if asked is None else asked
        return self.code_of(browser, wanted, self.pushed(wanted, **how))

    def code_of(self, browser: Browser, asked: dict[str, str], request_uri: str, **more: str) -> str:
        """Send the person with the handle of what was asked; return the code, of an answer that was checked."""
        answered = self.checked(browser.authorize(self.link(request_uri, **more)), asked)
        assert set(answered) <= {"code", "state", "iss"}, answered
        return answered["code"]

    def token(self, **parameters: str) -> httpx.Response:
        """Ask the token endpoint, with an assertion and a proof."""
        return self.token_with(self.authenticated(), self.proven("POST", "/oauth/token"), **parameters)

    def token_with(self, known: dict[str, str], dpop: str, **parameters: str) -> httpx.Response:
        """Ask the token endpoint.

        Args:
            known: What proves the client.
            dpop: The proof; "" for none.
            parameters: Of the request.
        """
        headers = {"DPoP": dpop} if dpop else {}
        body = {name: value for name, value in {**parameters, **known}.items() if value}
        return self.http.post(self.path("token_endpoint"), data=body, headers=headers)

    def redeem(self, code: str, **more: str) -> httpx.Response:
        """Exchange a code."""
        return super().redeem(code, **{"code_verifier": VERIFIER, **more})

    def redeem_with(self, code: str, known: dict[str, str], dpop: str) -> httpx.Response:
        """Exchange a code with what is given to prove the client and its key."""
        given = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        return self.token_with(known, dpop, **given)

    def sign_in(self, browser: Browser, **changes: str | None) -> dict[str, Any]:
        """Walk through the whole flow; return the tokens, and the verified claims of the ID token as ``claims``."""
        asked = self.request(**changes)
        return self.finished(asked, self.code(browser, asked))

    def finished(self, asked: dict[str, str], code: str) -> dict[str, Any]:
        """Exchange the code, and use the access token."""
        said = self.tokens(self.redeem(code))
        claims = self.id_claims(said, asked.get("nonce"))
        told = {**said, "claims": claims}
        self.userinfo(told)
        return told

    # ------------------------------------------------------------ the resource
    def ask(self, said: dict[str, Any], method: str = "GET") -> httpx.Response:
        """Ask userinfo with the bound token."""
        return self.ask_with(said, self.proven(method, "/oauth/userinfo", token=said["access_token"]), method=method)

    def ask_with(
        self, said: dict[str, Any], *dpop: str, scheme: str = "DPoP", method: str = "GET", query: str = ""
    ) -> httpx.Response:
        """Ask userinfo.

        Args:
            said: The tokens.
            dpop: The proofs, a header each.
            scheme: What the header says before the token.
            method: Of the request.
            query: Of the address, with its mark.
        """
        headers = [("Authorization", f"{scheme} {said['access_token']}"), *(("DPoP", each) for each in dpop)]
        return self.http.request(method, self.path("userinfo_endpoint") + query, headers=headers)
