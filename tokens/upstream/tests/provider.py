"""A provider on this machine that says whatever a test wants it to, also what no honest one would."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

CLIENT_ID = "ironauth at the provider"
SECRET = "s3cret: with a colon"

#: Made once: keys take a tenth of a second.
KEY = RSAKey.generate_key(2048, parameters={"kid": "k1", "alg": "RS256", "use": "sig"})
OTHER_KEY = ECKey.generate_key("P-256", parameters={"kid": "k2", "use": "sig"})
STRANGERS_KEY = RSAKey.generate_key(2048, parameters={"kid": "k1"})


class FakeProvider:
    """What it says is in attributes; ``asked`` has the paths asked for; ``connections``: how many were made.

    ``gives``: what its token endpoint says beside the ID token; ``renewed``: what it answers to a refresh token, which
    is then in ``renewals``.
    """

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.keys: list[Any] = [KEY]
        self.signer: Any = KEY
        self.alg = "RS256"
        self.claims: dict[str, Any] = {}
        self.nonce = ""
        self.challenge = ""
        self.document: dict[str, Any] = {}
        self.token_answer: dict[str, Any] | None = None
        self.gives: dict[str, Any] = {}
        self.renewals: list[str] = []
        self.renewed: tuple[int, dict[str, Any]] = (400, {"error": "invalid_grant"})
        self.userinfo: dict[str, Any] | None = None
        self.page = (302, b"")
        self.delay_s = 0.0
        self.connections = 0
        self.asked: list[str] = []
        self.refusals: list[str] = []
        self.check: Callable[[dict[str, str], str], object] = self.check_basic

    def metadata(self) -> dict[str, Any]:
        """Return the discovery document."""
        here = self.issuer
        return {
            "issuer": here,
            "authorization_endpoint": f"{here}/authorize",
            "token_endpoint": f"{here}/token",
            "jwks_uri": f"{here}/jwks",
            "authorization_response_iss_parameter_supported": True,
            **self.document,
        }

    def documents(self) -> dict[str, dict[str, Any] | None]:
        """Return what is at its addresses."""
        return {
            "/.well-known/openid-configuration": self.metadata(),
            "/jwks": {"keys": [key.as_dict(private=False) for key in self.keys]},
            "/userinfo": self.userinfo,
        }

    def id_token(self) -> str:
        """Return a token that says what it should, but for ``claims``; a claim of None is left out."""
        now = int(time.time())
        told = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "subject-1",
            "email": "ann@example.com",
            "email_verified": True,
            "name": "Ann",
            "iat": now,
            "exp": now + 300,
            "auth_time": now,
            "nonce": self.nonce,
            **self.claims,
        }
        header: dict[str, Any] = {"alg": self.alg, "kid": self.signer.kid or "k1"}
        body = json.dumps({name: value for name, value in told.items() if value is not None}).encode()
        if self.alg == "none":
            parts = [json.dumps(header).encode(), body, b""]
            return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
        return jws.serialize_compact(header, body, self.signer, algorithms=[self.alg])

    def check_basic(self, _form: dict[str, str], authorization: str) -> None:
        """Check the client's name and secret in the header."""
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if tuple(map(unquote_plus, pair.split(":", 1))) != (CLIENT_ID, SECRET):
            self.refusals.append("client")

    def tokens(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return the answer of the token endpoint, which checks the client and PKCE as a good provider does."""
        self.check(form, authorization)
        if form["grant_type"] == "refresh_token":
            self.renewals.append(form["refresh_token"])
            return (401, {"error": "invalid_client"}) if self.refusals else self.renewed
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenge:
            self.refusals.append("verifier")
        if self.refusals:
            return 400, {"error": "invalid_grant"}
        return 200, {"token_type": "Bearer", "access_token": "at", "id_token": self.id_token(), **self.gives}


def as_hmac_key(key: Any) -> OctKey:
    """Return a public key's text as a shared secret, for the oldest attack on signed tokens."""
    return OctKey.import_key(json.dumps(key.as_dict(private=False)))


class MeetingProvider(FakeProvider):
    """One for many people at once: a code says whose it is, and who redeems one waits for the others.

    ``meeting``: for how many; those who are alone after a while go on, for a worker asks a provider twice at once only.
    """

    PATIENCE_S = 0.5

    def __init__(self, issuer: str) -> None:
        super().__init__(issuer)
        self.meeting: threading.Barrier | None = None

    def code(self, asked: dict[str, str], **claims: str) -> str:
        """Return a code for the sign-in it was asked for; the provider says this of the person."""
        told = {"nonce": asked["nonce"], "challenge": asked["code_challenge"], "claims": claims}
        return base64.urlsafe_b64encode(json.dumps(told).encode()).decode()

    def meet(self) -> None:
        """Wait for the others."""
        if self.meeting is not None:
            with suppress(threading.BrokenBarrierError):
                self.meeting.wait(self.PATIENCE_S)

    def tokens(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return the answer of the token endpoint."""
        told = json.loads(base64.urlsafe_b64decode(form["code"]))
        one = FakeProvider(self.issuer)
        one.nonce, one.challenge, one.claims = told["nonce"], told["challenge"], told["claims"]
        self.meet()
        return one.tokens(form, authorization)


@contextmanager
def served[P: FakeProvider](kind: type[P], protocol: str = "HTTP/1.0") -> Iterator[P]:
    """Serve a provider on a free port; with HTTP/1.1 it leaves connections open."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def setup(self) -> None:
            super().setup()
            provider.connections += 1

        def do_GET(self) -> None:
            provider.asked.append(self.path)
            time.sleep(provider.delay_s)
            if self.path.startswith("/authorize?"):
                self._send(provider.page[0], "text/html", provider.page[1])
            else:
                document = provider.documents().get(self.path)
                self._answer(404 if document is None else 200, document or {})

        def do_POST(self) -> None:
            provider.asked.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            time.sleep(provider.delay_s)
            if provider.token_answer is not None:
                self._answer(200, provider.token_answer)
            else:
                self._answer(*provider.tokens(form, self.headers.get("Authorization", "")))

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            self._send(status, "application/json", json.dumps(document).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = kind(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
