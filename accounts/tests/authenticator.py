"""An authenticator in software, with the browser around it: what a test needs of WebAuthn's other side."""

import hashlib
import json
import os
import struct
import uuid
from collections.abc import Mapping
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from django.conf import settings
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url

ES256, EDDSA, RS256 = -7, -8, -257
PRESENT, VERIFIED, BACKUP_ELIGIBLE, BACKED_UP, ATTESTED = 0x01, 0x04, 0x08, 0x10, 0x40  # flags, WebAuthn §6.1

Json = dict[str, Any]


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


class Authenticator:
    """One credential, synchronised between a person's devices unless ``counts``. Attributes are a test's to spoil."""

    def __init__(self, *, algorithm: int = ES256, counts: bool = False) -> None:
        self.origin: str = settings.IRONAUTH_WEBAUTHN_ORIGINS[0]
        self.rp_id: str = settings.IRONAUTH_WEBAUTHN_RP_ID
        self.cross_origin = False
        self.flags = PRESENT | VERIFIED | (0 if counts else BACKUP_ELIGIBLE | BACKED_UP)
        self.sign_count, self.step = 0, int(counts)
        self.algorithm = algorithm
        self.key = _new_key(algorithm)
        self.credential_id = os.urandom(32)
        self.user_handle: bytes | None = None
        self.aaguid = uuid.uuid4()
        self.attestation: Json = {"fmt": "none", "attStmt": {}}

    def create(self, options: Mapping[str, Any]) -> Json:
        """Answer ``navigator.credentials.create()`` with RegistrationResponseJSON."""
        self.user_handle = base64url_to_bytes(options["user"]["id"])
        attested = self.aaguid.bytes + struct.pack(">H", len(self.credential_id)) + self.credential_id
        data = self._data(self.flags | ATTESTED) + attested + self.public_key()
        return self._answer(
            clientDataJSON=self._client_data("webauthn.create", options["challenge"]),
            attestationObject=cbor2.dumps({**self.attestation, "authData": data}),
            transports=["internal", "hybrid", "teleport"],
        )

    def get(self, options: Mapping[str, Any]) -> Json:
        """Answer ``navigator.credentials.get()`` with AuthenticationResponseJSON."""
        self.sign_count += self.step
        client_data, data = self._client_data("webauthn.get", options["challenge"]), self._data(self.flags)
        signature = self._sign(data + hashlib.sha256(client_data).digest())
        handle = {} if self.user_handle is None else {"userHandle": self.user_handle}
        return self._answer(clientDataJSON=client_data, authenticatorData=data, signature=signature, **handle)

    def public_key(self) -> bytes:
        """Return the COSE_Key (RFC 9053 §7, RFC 8230 §4)."""
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            point = self.key.public_key().public_numbers()
            curve = {"secp256r1": 1, "secp384r1": 2}[self.key.curve.name]
            size = (self.key.curve.key_size + 7) // 8
            return cbor2.dumps(
                {1: 2, 3: self.algorithm, -1: curve, -2: point.x.to_bytes(size), -3: point.y.to_bytes(size)}
            )
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return cbor2.dumps({1: 1, 3: self.algorithm, -1: 6, -2: self.key.public_key().public_bytes_raw()})
        numbers = self.key.public_key().public_numbers()
        return cbor2.dumps({1: 3, 3: self.algorithm, -1: _number(numbers.n), -2: _number(numbers.e)})

    def _sign(self, message: bytes) -> bytes:
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return self.key.sign(message, ec.ECDSA(hashes.SHA256()))
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return self.key.sign(message)
        return self.key.sign(message, padding.PKCS1v15(), hashes.SHA256())

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(self.rp_id.encode()).digest() + struct.pack(">BI", flags, self.sign_count)

    def _client_data(self, kind: str, challenge: str) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": self.cross_origin}
        return json.dumps(said).encode()

    def _answer(self, **response: Any) -> Json:
        told = {name: bytes_to_base64url(one) if isinstance(one, bytes) else one for name, one in response.items()}
        name = bytes_to_base64url(self.credential_id)
        return {"id": name, "rawId": name, "type": "public-key", "response": told, "clientExtensionResults": {}}


def _new_key(algorithm: int) -> "ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey":
    if algorithm == ES256:
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == EDDSA:
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65_537, 2_048)
