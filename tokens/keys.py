"""Signing keys in memory: Ed25519 key pairs (RFC 8037), their thumbprint names (RFC 7638), and the set in use.

The set is an immutable value: a reload replaces it whole, so a request never sees half a rotation.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from joserfc.jwk import OKPKey

#: The two names of the same signature (RFC 8037 §3.1, RFC 9864 §2.2); a key is made for one of them and keeps it.
ALGORITHMS = ("EdDSA", "Ed25519")


class PublicJwk(msgspec.Struct, frozen=True):
    """The published half of a key (RFC 8037 §2), with the members every client asks for; never ``d``."""

    kty: str
    crv: str
    x: str
    kid: str
    use: str
    alg: str


class JwkSet(msgspec.Struct, frozen=True):
    """A JWK Set (RFC 7517 §5)."""

    keys: list[PublicJwk]


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One stored key as the set needs it; ``seed`` only for the active one, ``not_after`` in unix seconds."""

    jwk: PublicJwk
    active: bool
    seed: bytes | None
    not_after: float | None


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key that tokens may name; after ``not_after`` (unix seconds) none does any more."""

    kid: str
    alg: str
    key: OKPKey
    not_after: float | None


@dataclass(frozen=True, slots=True)
class ActiveKey:
    """The key that signs new tokens."""

    kid: str
    alg: str
    key: OKPKey


@dataclass(frozen=True, slots=True)
class KeySet:
    """Every key this server accepts, the one it signs with (if any), and the bytes it publishes."""

    verifying: Mapping[str, VerifyingKey]
    active: ActiveKey | None
    jwks: bytes
    etag: str

    def verifier(self, kid: str, now: float) -> VerifyingKey | None:
        """Return the key named ``kid`` while it is accepted, else None; ``now`` in unix seconds."""
        found = self.verifying.get(kid)
        if found is None or (found.not_after is not None and now >= found.not_after):
            return None
        return found


def build_key_set(records: Iterable[KeyRecord], *, now: float) -> KeySet:
    """Return the key set of ``records``, without those whose ``not_after`` has passed at ``now`` (unix seconds)."""
    verifying: dict[str, VerifyingKey] = {}
    active: ActiveKey | None = None
    published: list[PublicJwk] = []
    for record in records:
        if record.not_after is not None and now >= record.not_after:
            continue
        jwk = record.jwk
        verifying[jwk.kid] = VerifyingKey(jwk.kid, jwk.alg, import_public_key(jwk.x), record.not_after)
        published.append(jwk)
        if record.active and record.seed is not None:
            active = ActiveKey(jwk.kid, jwk.alg, import_private_key(record.seed))
    jwks = msgspec.json.encode(JwkSet(published))
    return KeySet(verifying, active, jwks, f'"{hashlib.sha256(jwks).hexdigest()[:32]}"')


def new_key_pair(alg: str) -> tuple[PublicJwk, bytes]:
    """Return a new key's published half and its 32-byte private seed; ``alg``: the name it will sign under.

    Its kid never begins with a hyphen, so that ``rotate_signing_key --drop KID`` takes it for what it is.
    """
    while True:
        key = OKPKey.generate_key("Ed25519")
        seed = _decoded(str(key.as_dict(private=True)["d"]))
        jwk = public_jwk(seed, alg)
        if not jwk.kid.startswith("-"):
            return jwk, seed


def public_jwk(seed: bytes, alg: str) -> PublicJwk:
    """Return the published half of the key with this private ``seed``; its kid is the RFC 7638 thumbprint.

    Raises ``ValueError`` for an algorithm that is not an Ed25519 name.
    """
    if alg not in ALGORITHMS:
        raise ValueError(f"{alg!r} is not one of {', '.join(ALGORITHMS)}: set IRONAUTH_JWT_ALG to one of them")
    key = import_private_key(seed)
    return PublicJwk(kty="OKP", crv="Ed25519", x=str(key["x"]), kid=key.thumbprint(), use="sig", alg=alg)


def import_public_key(x: str) -> OKPKey:
    """Return the verifying key of a JWK's ``x`` member."""
    return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": x})


def import_private_key(seed: bytes) -> OKPKey:
    """Return the signing key of a 32-byte seed (RFC 8032 §5.1.5)."""
    # joserfc imports a private JWK only with its public half, yet computes that half from ``d`` itself.
    bare = OKPKey.binding.from_private_bytes("Ed25519", seed)
    return OKPKey.import_key(bare)


def _decoded(text: str) -> bytes:
    """Return the bytes of unpadded base64url that this module's own library wrote."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
