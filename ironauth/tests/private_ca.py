"""A certificate authority made for a test, and what it signs."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PEM, FORM = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


class Files(NamedTuple):
    """Where a certificate and its key are."""

    cert: Path
    key: Path


class PrivateCa:
    """Signs certificates for 127.0.0.1 into ``folder``; its own is ``file``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(self._certificate(name, self._key, ca=True).public_bytes(PEM))

    def sign(self, name: str, host: str = "127.0.0.1") -> Files:
        """Make a key, and a certificate for the address ``host``."""
        key = ec.generate_private_key(ec.SECP256R1())
        files = Files(self._folder / f"{self._name}-{name}.crt", self._folder / f"{self._name}-{name}.key")
        files.cert.write_bytes(self._certificate(name, key, host=host).public_bytes(PEM))
        files.key.write_bytes(key.private_bytes(PEM, FORM, serialization.NoEncryption()))
        return files

    def _certificate(
        self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool = False, host: str = "127.0.0.1"
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        subject, issuer = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (name, self._name))
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        built = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if ca:
            usage = x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False,
            )  # fmt: skip
            built = built.add_extension(usage, critical=True)
        else:
            address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
            built = built.add_extension(address, critical=False).add_extension(issued_by, critical=False)
        return built.sign(self._key, hashes.SHA256())
