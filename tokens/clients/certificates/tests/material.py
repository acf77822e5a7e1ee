"""Certificates that applications make, or get."""

import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey

from ironauth.infrastructure.core import clock

DAY = datetime.timedelta(days=1)
SUBJECT = "CN=bank.example.com,O=Bank"


def certificate(
    key: Any, subject: str = SUBJECT, *, begins: datetime.timedelta = -DAY, ends: datetime.timedelta = DAY
) -> x509.Certificate:
    """Return a certificate that the key has signed for itself; ``begins`` and ``ends`` from now."""
    name, now = x509.Name.from_rfc4514_string(subject), clock.now()
    private = key.private_key
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .sign(private, hashes.SHA256())
    )


def pem_of(made: x509.Certificate) -> str:
    """Return it as nginx escapes it."""
    return quote(made.public_bytes(Encoding.PEM).decode(), safe="")


def keys_of(*keys: ECKey) -> dict[str, Any]:
    """Return the public halves as a client registers them."""
    return {"keys": [{**key.as_dict(private=False), "kid": str(at)} for at, key in enumerate(keys)]}


def stored(folder: Path, made: x509.Certificate, private: Any) -> tuple[str, str]:
    """Write a certificate and its key for TLS; return both paths."""
    folder.mkdir()
    (folder / "cert.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(folder / "cert.pem"), str(folder / "key.pem")
