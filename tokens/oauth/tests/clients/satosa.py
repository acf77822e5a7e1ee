"""SATOSA between us and a SAML identity provider, with the very files of deploy/satosa: started and stopped."""

import base64
import json
import os
import secrets
import shutil
import ssl
import subprocess
import time
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from ironauth import settings_test

REPOSITORY: Final = Path(__file__).resolve().parents[4]
START_S: Final = 120.0  # on a machine with everything else to do
OID: Final = "urn:oid:"
#: Attributes as identity providers name them (X.500 as of eduPerson and SAML), and where Keycloak has them.
ATTRIBUTES: Final = {
    "email": f"{OID}0.9.2342.19200300.100.1.3",
    "firstName": f"{OID}2.5.4.42",
    "lastName": f"{OID}2.5.4.4",
}


def installed() -> Path:
    """Return the folder of its commands; without it skip, or in CI fail."""
    command = ["sh", ".ci/find-satosa"]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    if found.returncode != 0:
        fail = pytest.fail if os.environ.get("CI") else pytest.skip
        fail(f"sh .ci/find-satosa: {found.stdout}{found.stderr}")
    return Path(found.stdout.splitlines()[-1])


def trusting(certificate: Path) -> ssl.SSLContext:
    """Return what a client needs to believe the server with this certificate."""
    return ssl.create_default_context(cafile=str(certificate))


class Satosa:
    """One SATOSA, with keys of its own."""

    def __init__(self, folder: Path, *, client_id: str, secret: str, redirect_uri: str) -> None:
        """Prepare its folder as the guide says.

        Args:
            folder: An empty folder.
            client_id: Ours there.
            secret: Ours there.
            redirect_uri: Where it sends people back.
        """
        self.issuer = f"https://127.0.0.1:{settings_test._free_port()}"
        self.entity_id = f"{self.issuer}/Saml2/proxy_saml2_backend.xml"
        self.acs = f"{self.issuer}/Saml2/acs/post"
        self.secret = secret
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        for file in (REPOSITORY / "deploy" / "satosa").glob("*.yaml"):
            shutil.copy(file, folder)
        keys = folder / "keys"
        keys.mkdir()
        saml, certificate = _keypair()
        self.certificate = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()
        (keys / "saml.key").write_bytes(_pem(saml))
        (keys / "saml.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        tls, certificate = _keypair()
        (keys / "tls.key").write_bytes(_pem(tls))
        self.trusted = keys / "tls.crt"
        self.trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (keys / "oidc.key").write_bytes(_pem(rsa.generate_private_key(65_537, 2048)))
        clients = json.loads((REPOSITORY / "deploy" / "satosa" / "clients.example.json").read_text(encoding="utf-8"))
        (ours,) = clients.values()
        ours |= {"client_secret": secret, "redirect_uris": [redirect_uri]}
        (folder / "clients.json").write_text(json.dumps({client_id: ours}), encoding="utf-8")

    def as_known_to_keycloak(self) -> dict[str, Any]:
        """Return it as a client of a realm."""
        mappers = [
            {
                "name": name,
                "protocol": "saml",
                "protocolMapper": "saml-user-property-mapper",
                "config": {"user.attribute": name, "attribute.name": oid, "attribute.nameformat": "URI Reference"},
            }
            for name, oid in ATTRIBUTES.items()
        ]
        return {
            "clientId": self.entity_id,
            "protocol": "saml",
            "redirectUris": [self.acs],
            "frontchannelLogout": True,
            "attributes": {
                "saml_assertion_consumer_url_post": self.acs,
                "saml_name_id_format": "persistent",
                "saml.client.signature": "true",
                "saml.signing.certificate": self.certificate,
                "saml.server.signature": "true",
                "saml.assertion.signature": "true",
                "saml.authnstatement": "true",
            },
            "protocolMappers": mappers,
        }

    def start(self, identity_provider: str) -> None:
        """Start it with the metadata at this address, and wait until it answers."""
        with httpx.Client(timeout=30, verify=trusting(self.trusted)) as client:
            metadata = client.get(identity_provider).raise_for_status().content
            (self._folder / "idp-metadata.xml").write_bytes(metadata)
            environment = {
                **os.environ,
                "SATOSA_BASE": self.issuer,
                "SATOSA_STATE_ENCRYPTION_KEY": secrets.token_urlsafe(32),
                "SATOSA_SUBJECT_SALT": secrets.token_urlsafe(32),
            }
            options = ("--workers", "1", "--threads", "4", "--no-control-socket")
            tls = ("--keyfile", "keys/tls.key", "--certfile", "keys/tls.crt")
            address = self.issuer.partition("//")[2]
            command = [str(installed() / "gunicorn"), "--bind", address, *options, *tls, "satosa.wsgi:app"]
            with (self._folder / "log").open("wb") as log:
                self._process = subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log)
            deadline = time.monotonic() + START_S
            while time.monotonic() < deadline and self._process.poll() is None:
                try:
                    if client.get(f"{self.issuer}/.well-known/openid-configuration").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.2)
        raise RuntimeError(f"SATOSA did not start: {self.said()}")

    def said(self) -> str:
        """Return the end of its log."""
        return (self._folder / "log").read_text(encoding="utf-8")[-3000:]

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=30)
            self._process = None


def _keypair() -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    """Return a key, and a certificate for it that it has signed itself."""
    key = rsa.generate_private_key(65_537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "SATOSA of the tests")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    return key, builder.sign(key, hashes.SHA256())


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
