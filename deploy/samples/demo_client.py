"""An application that signs people in at IronAuth, in one file, to see it work: http://127.0.0.1:3000 until Ctrl-C.

``demo_client.py CLIENT.json [ISSUER]``: the file is what ``manage.py oauth_client create`` printed,
its redirect URI ``http://127.0.0.1:3000/callback`` (another port there is the port here); the issuer is
http://localhost:8000 unless named. For one browser at a time; an application of yours takes a library (see the client's
page in the admin).
"""

import argparse
import base64
import contextlib
import hashlib
import html
import json
import secrets
import sys
import urllib.error
import urllib.request
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import KeySet

TIMEOUT_S = 10
SCOPE = "openid profile email"


class Demo:
    """The client: what it knows of the server, and the sign-in under way."""

    def __init__(self, client: dict[str, Any], issuer: str) -> None:
        self.client = client
        self.issuer = issuer
        self.redirect_uri: str = client["redirect_uris"][0]
        self.server = fetch(f"{issuer}/.well-known/openid-configuration")
        self.state = self.nonce = self.verifier = ""

    def begin(self) -> str:
        """Return where the browser has to go; state, nonce and PKCE verifier are new each time."""
        self.state, self.nonce, self.verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client["client_id"],
            "redirect_uri": self.redirect_uri,
            "scope": SCOPE,
            "state": self.state,
            "nonce": self.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{self.server['authorization_endpoint']}?{urlencode(query)}"

    def finish(self, told: dict[str, str]) -> dict[str, Any]:
        """Return who has signed in. Raises ``ValueError`` with what is wrong."""
        state, self.state = self.state, ""
        if not state or not secrets.compare_digest(told.get("state", "").encode(), state.encode()):
            raise ValueError("This answer belongs to no sign-in that began here.")
        if told.get("iss") != self.issuer:  # RFC 9207
            raise ValueError("This answer is another server's.")
        if "code" not in told:
            raise ValueError(f"{told.get('error')}: {told.get('error_description', '')}")
        form = {"grant_type": "authorization_code", "code": told["code"], "redirect_uri": self.redirect_uri}
        form |= {"code_verifier": self.verifier, "client_id": self.client["client_id"]}
        form |= {"client_secret": self.client["client_secret"]} if "client_secret" in self.client else {}
        tokens = fetch(self.server["token_endpoint"], form=form)
        return {
            "ID token": self.verified(tokens["id_token"]),
            "userinfo": fetch(self.server["userinfo_endpoint"], bearer=tokens["access_token"]),
        }

    def verified(self, id_token: str) -> dict[str, Any]:
        """Return what the ID token says (OpenID Connect Core §3.1.3.7). Raises ``ValueError``."""
        published: Any = fetch(self.server["jwks_uri"])
        keys = KeySet.import_key_set(published)
        rules = jwt.JWTClaimsRegistry(
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self.client["client_id"]},
            exp={"essential": True},
            nonce={"essential": True, "value": self.nonce},
        )
        try:
            claims = jwt.decode(id_token, keys, algorithms=self.server["id_token_signing_alg_values_supported"]).claims
            rules.validate(claims)
        except JoseError as error:
            raise ValueError(f"The ID token is not to be believed: {error}") from error
        return claims


class Page(BaseHTTPRequestHandler):
    """Three addresses: a page with a link, where the link leads, and where IronAuth answers."""

    demo: Demo

    def do_GET(self) -> None:
        """Answer a browser."""
        where = urlsplit(self.path)
        if where.path == "/":
            self.show("<h1>Demo</h1><p><a href='/sign-in'>Sign in with IronAuth</a></p>")
        elif where.path == "/sign-in":
            self.send_response(303)
            self.send_header("Location", self.demo.begin())
            self.end_headers()
        elif where.path == urlsplit(self.demo.redirect_uri).path:
            try:
                found = self.demo.finish({name: values[0] for name, values in parse_qs(where.query).items()})
            except (ValueError, OSError) as error:
                self.show(f"<h1>Not signed in</h1><p>{html.escape(str(error))}</p><a href='/'>Again</a>", 400)
            else:
                told = html.escape(json.dumps(found, indent=2, ensure_ascii=False))
                self.show(f"<h1>Signed in</h1><pre>{told}</pre><a href='/'>Again</a>")
        else:
            self.show("<h1>Not here</h1>", 404)

    def show(self, body: str, status: int = 200) -> None:
        """Answer with a page."""
        page = f"<!DOCTYPE html><meta charset='utf-8'><title>Demo</title>{body}".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


def fetch(address: str, *, form: dict[str, str] | None = None, bearer: str = "") -> dict[str, Any]:
    """Return the JSON at an address. Raises ``OSError`` or ``ValueError``."""
    request = urllib.request.Request(address, data=urlencode(form).encode() if form else None)  # noqa: S310 - configured
    if bearer:
        request.add_header("Authorization", f"Bearer {bearer}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        raise ValueError(f"{address} answers {error.code}: {error.read(1_000).decode(errors='replace')}") from error
    return found


def main() -> None:
    """Serve on the redirect URI's port."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", type=Path, help="what manage.py oauth_client create printed, in a file")
    parser.add_argument("issuer", nargs="?", default="http://localhost:8000", help="default: %(default)s")
    given = parser.parse_args()
    # ID tokens name Ed25519 by the older name, which more libraries know; RFC 9864 prefers the newer one.
    warnings.filterwarnings("ignore", "EdDSA is deprecated", SecurityWarning)
    Page.demo = Demo(json.loads(given.client.read_text(encoding="utf-8")), given.issuer)
    port = urlsplit(Page.demo.redirect_uri).port or 3_000
    with ThreadingHTTPServer(("127.0.0.1", port), Page) as server:
        sys.stdout.write(f"Open http://127.0.0.1:{port} in a browser.\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
