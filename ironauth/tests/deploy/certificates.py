"""A certificate authority of one test, and what it vouches for."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Authority:
    """Signs certificates for host names; its own is in ``file``."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / "ca.pem"
        made = self._certificate("Test CA", self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def certify(self, host: str, folder: Path) -> None:
        """Write ``fullchain.pem`` and ``privkey.pem`` for ``host``, where certbot writes them."""
        folder.mkdir(parents=True)
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._certificate(host, key, x509.SubjectAlternativeName([x509.DNSName(host)]))
        (folder / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (folder / "privkey.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    def certify_client(self, common_name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        """Return a certificate of an application."""
        return self._certificate(common_name, key)

    def _certificate(
        self, name: str, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name("Test CA"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if name == "Test CA":
            usage = dict.fromkeys(
                (
                    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
                    "key_agreement", "encipher_only", "decipher_only",
                ),
                False,
            )  # fmt: skip
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())
