"""A provider in a process of its own, which confirms everybody.

``python -m perf.experiments.upstream.provider FOLDER`` writes the certificate it is to be believed with into the
folder, says its issuer, and serves until it is ended. A code is what the client of the load makes of it: the nonce, and
who comes.
"""

import base64
import json
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

CLIENT_ID: Final = "ironauth"
WORD: Final = "of the benchmark"
CERTIFICATE: Final = "provider.pem"
LIFE_S: Final = 300  # of an ID token
KEY: Final = rsa.generate_private_key(65_537, 2048)


def encoded(raw: bytes) -> str:
    """Return base64url without padding (RFC 7515 §2)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def jwk() -> dict[str, str]:
    """Return the public key (RFC 7518 §6.3.1)."""
    numbers = KEY.public_key().public_numbers()
    parts = {name: getattr(numbers, name) for name in ("n", "e")}
    members = {name: encoded(one.to_bytes((one.bit_length() + 7) // 8)) for name, one in parts.items()}
    return {"kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig", **members}


def id_token(issuer: str, nonce: str, subject: str) -> str:
    """Return an ID token, signed with RS256.

    Args:
        issuer: Ours.
        nonce: Of the sign-in.
        subject: Who has signed in.
    """
    now = int(time.time())
    told = {
        "iss": issuer, "aud": CLIENT_ID, "sub": subject, "iat": now, "exp": now + LIFE_S, "nonce": nonce,
        "email": f"{subject}@example.com", "email_verified": True, "name": "Ann",
    }  # fmt: skip
    signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "k1"}, told))
    return f"{signed}.{encoded(KEY.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def code_of(nonce: str, subject: str) -> str:
    """Return the code of somebody who has signed in.

    Args:
        nonce: Of the sign-in.
        subject: Who it is.
    """
    return base64.urlsafe_b64encode(json.dumps([nonce, subject]).encode()).decode()


class Provider(BaseHTTPRequestHandler):
    """Discovery, keys and tokens."""

    protocol_version = "HTTP/1.1"  # as providers do, it lets the connection stay
    disable_nagle_algorithm = True  # else the second half of an answer waits for an acknowledgement, and ours for it
    issuer = ""

    def do_GET(self) -> None:
        """Answer with the discovery document or the key set."""
        if self.path == "/jwks":
            self._answer({"keys": [jwk()]})
            return
        here = self.issuer
        self._answer(
            {
                "issuer": here,
                "authorization_endpoint": f"{here}/authorize",
                "token_endpoint": f"{here}/token",
                "jwks_uri": f"{here}/jwks",
            }
        )

    def do_POST(self) -> None:
        """Answer a code with an ID token."""
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        nonce, subject = json.loads(base64.urlsafe_b64decode(form["code"][0]))
        self._answer({"token_type": "Bearer", "access_token": "at", "id_token": id_token(self.issuer, nonce, subject)})

    def _answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve with a certificate of its own."""
    folder = Path(sys.argv[1])
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "provider")]), datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = made.add_extension(here, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / CERTIFICATE).write_bytes(pem)
    (folder / "provider.key").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / "provider.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Provider.issuer = f"https://127.0.0.1:{server.server_port}"
    sys.stdout.write(f"{Provider.issuer}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
