"""Signing keys in memory: key pairs (RFC 8037, RFC 7518 §6), their thumbprint names (RFC 7638), and the set in use.

Access tokens are signed with Ed25519 unless their client says otherwise. Keys of other families sign for software that
cannot verify Ed25519. The set is an immutable value: a reload replaces it whole, so a request never sees half a
rotation.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, cast

import msgspec
from cryptography.hazmat.primitives.serialization import load_der_private_key
from joserfc.jwk import ECKey, OKPKey, RSAKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

#: The two names of the same signature (RFC 8037 §3.1, RFC 9864 §2.2); a key is made for one of them and keeps it.
ALGORITHMS = ("EdDSA", "Ed25519")
RSA_BITS: Final = 2048  # RFC 7518 §3.3: at least; 0.6 ms a signature, 3072 would take 1.8

Key = OKPKey | ECKey | RSAKey


def kid_tag(kid: str) -> str:
    """Return the invalidation tag of everything that was verified with this key."""
    return f"kid:{kid}"


class Family(StrEnum):
    """Kinds of keys, each with its own next, active and retiring ones; the values are stored."""

    ED25519 = "ed25519"
    ES256 = "ES256"
    RS256 = "RS256"


#: What every installation has: access tokens are signed by the first, ID tokens of a new client by the second, which
#: OpenID Connect Discovery §3 wants of every server.
FIRST_FAMILIES: Final = (Family.ED25519, Family.RS256)
_FAMILIES: Final = {"OKP": Family.ED25519, "EC": Family.ES256, "RSA": Family.RS256}


class PublicJwk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The published half of a key, with the members every client asks for; never ``d``.

    ``crv`` and ``x``: Ed25519 (RFC 8037 §2) and ES256, with ``y`` (RFC 7518 §6.2); ``n`` and ``e``: RS256 (§6.3).
    """

    kty: str
    crv: str = ""
    x: str = ""
    y: str = ""
    n: str = ""
    e: str = ""
    kid: str
    use: str
    alg: str

    @property
    def family(self) -> Family:
        """The kind of key."""
        return _FAMILIES[self.kty]


class JwkSet(msgspec.Struct, frozen=True):
    """A JWK Set (RFC 7517 §5)."""

    keys: list[PublicJwk]


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One stored key as the set needs it.

    Attributes:
        jwk: The published half.
        active: It signs now.
        seed: The private part; None unless it is active.
        not_after: Unix seconds from which it is accepted no more; None while that is open.
        coming: It will sign once the active one has retired.
    """

    jwk: PublicJwk
    active: bool
    seed: bytes | None
    not_after: float | None
    coming: bool = False


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key that tokens may name; after ``not_after`` (unix seconds) none does any more."""

    kid: str
    alg: str
    key: Key
    not_after: float | None


@dataclass(frozen=True, slots=True)
class ActiveKey:
    """The key that signs new tokens."""

    kid: str
    alg: str
    key: Key


@dataclass(frozen=True, slots=True)
class KeySet:
    """Every key this server accepts, those it signs with (if any), and the bytes it publishes.

    Attributes:
        verifying: The keys that tokens are verified with, of all families.
        active: The Ed25519 key that signs.
        jwks: The published key set as JSON.
        etag: Of ``jwks``, for If-None-Match.
        signers: The keys that sign, by family.
        algorithms: What clients' tokens are signed with now, or will be after the next rotation.
    """

    verifying: Mapping[str, VerifyingKey]
    active: ActiveKey | None
    jwks: bytes
    etag: str
    signers: Mapping[Family, ActiveKey] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ()

    def verifier(self, kid: str, now: float) -> VerifyingKey | None:
        """Return the key named ``kid`` while tokens of it are accepted, else None; ``now`` in unix seconds."""
        found = self.verifying.get(kid)
        return None if found is None or (found.not_after is not None and now >= found.not_after) else found


def build_key_set(records: Iterable[KeyRecord], *, now: float) -> KeySet:
    """Return the key set of ``records``, without those whose ``not_after`` has passed at ``now`` (unix seconds).

    Args:
        records: The stored keys, in the order in which the JWKS lists them.
        now: Unix seconds.
    """
    accepted = [record for record in records if record.not_after is None or now < record.not_after]
    keys = {
        record.jwk.kid: VerifyingKey(record.jwk.kid, record.jwk.alg, public_key(record.jwk), record.not_after)
        for record in accepted
    }
    signers = {
        record.jwk.family: ActiveKey(record.jwk.kid, record.jwk.alg, private_key(record.jwk.family, record.seed))
        for record in accepted
        if record.active and record.seed is not None
    }
    signing = sorted((record for record in accepted if record.active or record.coming), key=_active_ed25519_first)
    jwks = msgspec.json.encode(JwkSet([record.jwk for record in accepted]))
    return KeySet(
        verifying=keys,
        active=signers.get(Family.ED25519),
        jwks=jwks,
        etag=f'"{hashlib.sha256(jwks).hexdigest()[:32]}"',
        signers=signers,
        algorithms=tuple(dict.fromkeys(record.jwk.alg for record in signing)),
    )


def _active_ed25519_first(record: KeyRecord) -> tuple[bool, Family, bool]:
    return record.jwk.family is not Family.ED25519, record.jwk.family, not record.active


def new_key_pair(alg: str) -> tuple[PublicJwk, bytes]:
    """Return a new key's published half and its private part.

    The private part is a 32-byte seed for Ed25519, else PKCS #8. The kid never begins with a hyphen, so that
    ``rotate_signing_key --drop KID`` takes it for what it is.

    Args:
        alg: The name it will sign under.
    """
    while True:
        if alg == Family.ES256:
            private = ECKey.generate_key("P-256").as_der(private=True)
        elif alg == Family.RS256:
            private = RSAKey.generate_key(RSA_BITS).as_der(private=True)
        else:
            private = _decoded(str(OKPKey.generate_key("Ed25519").as_dict(private=True)["d"]))
        jwk = public_jwk(private, alg)
        if not jwk.kid.startswith("-"):
            return jwk, private


def public_jwk(private: bytes, alg: str) -> PublicJwk:
    """Return the published half of the key with this private part; its kid is the RFC 7638 thumbprint.

    Args:
        private: The private part, as ``new_key_pair`` returned it.
        alg: The value of the JWK's ``alg``.

    Raises:
        ValueError: an algorithm that nothing here signs with.
    """
    if alg in (Family.ES256, Family.RS256):
        key = private_key(Family(alg), private)
        return msgspec.convert(
            {**key.as_dict(private=False), "kid": key.thumbprint(), "use": "sig", "alg": alg}, PublicJwk
        )
    if alg not in ALGORITHMS:
        raise ValueError(f"{alg!r} is not one of {', '.join(ALGORITHMS)}: set IRONAUTH_JWT_ALG to one of them")
    key = import_private_key(private)
    return PublicJwk(kty="OKP", crv="Ed25519", x=str(key["x"]), kid=key.thumbprint(), use="sig", alg=alg)


def public_key(jwk: PublicJwk) -> Key:
    """Return the verifying key of a published one.

    Raises:
        JoseError: The members are none of a key's; ``ValueError`` for some of them.
    """
    match jwk.family:
        case Family.ES256:
            return ECKey.import_key({"kty": "EC", "crv": jwk.crv, "x": jwk.x, "y": jwk.y})
        case Family.RS256:
            return RSAKey.import_key({"kty": "RSA", "n": jwk.n, "e": jwk.e})
        case _:
            return import_public_key(jwk.x)


def private_key(family: Family, private: bytes) -> Key:
    """Return the signing key of a private part as ``new_key_pair`` returned it.

    Args:
        family: The kind of key.
        private: The private part, unsealed.
    """
    match family:
        case Family.ES256:
            return ECKey.import_key(private)
        case Family.RS256:
            # Not validated again: it was generated here, and its seal is authenticated. Validating takes 28 ms, and
            # each process loads its keys anew every few seconds, on the event loop.
            key = load_der_private_key(private, None, unsafe_skip_rsa_key_validation=True)
            return RSAKey.import_key(cast("RSAPrivateKey", key))
        case _:
            return import_private_key(private)


def import_public_key(x: str) -> OKPKey:
    """Return the verifying key of an Ed25519 JWK's ``x`` member."""
    return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": x})


def import_private_key(seed: bytes) -> OKPKey:
    """Return the signing key of a 32-byte seed (RFC 8032 §5.1.5)."""
    # joserfc imports a private JWK only with its public half, yet computes that half from ``d`` itself.
    bare = OKPKey.binding.from_private_bytes("Ed25519", seed)
    return OKPKey.import_key(bare)


def _decoded(text: str) -> bytes:
    """Return the bytes of unpadded base64url that this module's own library wrote."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
