"""Clients that sign who they are: ``private_key_jwt`` (RFC 7523 §2.2, §3; OpenID Connect Core §9).

An assertion is good for this server alone, for a short time, and once: it is worthless to others who have seen it. Its
``aud`` is the issuer or, as RFC 7523 §3 has it and many libraries write it, the token endpoint; as a text or as a list
of that alone. For clients of the profile fapi2 it is the issuer as a text: another server that such a client uses could
otherwise have an assertion made for itself and use it here (security-bar 53).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from django.conf import settings
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, OKPKey, RSAKey

from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.access.codec import CLOCK_LEEWAY_S, MAX_TOKEN_BYTES, QuietEdDSA
from tokens.clients.keys import may_have_signed
from tokens.clients.profiles import Profile
from tokens.errors import InvalidToken
from tokens.protocol import TOKEN_PATH

type PublicKey = OKPKey | ECKey | RSAKey

TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
#: Seconds an assertion may have to live, at most. It is made for one request; libraries give it one minute to sixty.
MAX_LIFE_S: Final = 3_600
#: What `once` knows used assertions by.
ONCE: Final = "assertion"
#: What an assertion may call itself (RFC 7519 §5.1, draft-ietf-oauth-rfc7523bis); anything else is another token.
TYPES: Final = frozenset({"jwt", "client-authentication+jwt"})
#: What a public key of each type is made of (RFC 7638 §3.2), and how it is read.
_MEMBERS: Final = {"OKP": ("kty", "crv", "x"), "EC": ("kty", "crv", "x", "y"), "RSA": ("kty", "n", "e")}
_KINDS: Final[Mapping[str, type[OKPKey | ECKey | RSAKey]]] = {"OKP": OKPKey, "EC": ECKey, "RSA": RSAKey}


class _Registry(jws.JWSRegistry):
    """The signature algorithms of clients' keys: no HMAC, no other curve, and not ``none``."""

    max_header_length = MAX_TOKEN_BYTES  # a proof of possession has its key in the header: an RSA key alone is longer
    algorithms: dict[str, JWSAlgModel] = {
        "EdDSA": QuietEdDSA(),
        **{alg: jws.JWSRegistry.algorithms[alg] for alg in ("Ed25519", "ES256", "RS256", "PS256")},
    }


#: What assertions may be signed with, for the metadata.
ALGORITHM_NAMES: Final = tuple(_Registry.algorithms)
#: A member of the header that nobody here knows is ignored (RFC 7515 §4); ``crit`` and ``b64`` are refused before.
_REGISTRIES: Final = {alg: _Registry(algorithms=[alg], strict_check_header=False) for alg in _Registry.algorithms}


class _Claims(msgspec.Struct, frozen=True):
    """What an assertion must say (RFC 7523 §3); times in unix seconds, with or without a fraction."""

    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    jti: str
    iat: float | None = None
    nbf: float | None = None


class Assertion(NamedTuple):
    """An assertion that is genuine and in force. ``id``: what stands for it once it is used."""

    id: UUID
    expires_at: int


class AssertionRefused(Exception):
    """The assertion proves nothing. ``cause``: one word for the log; the answer is the same for all of them."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def named_client(text: str) -> str:
    """Return the client an assertion says it is from, "" when it cannot be read; nothing is verified."""
    try:
        return str(codec.payload_of(text).get("sub", ""))
    except InvalidToken:
        return ""


def verified(text: str, *, client_id: str, jwks: Mapping[str, Any], profile: Profile) -> Assertion:
    """Return the assertion that one of the client's keys has signed, for this issuer and for now.

    Args:
        text: The JWT as it was received.
        client_id: The client that the request claims to come from.
        jwks: The client's registered public keys.
        profile: The client's; it says what may sign it, and what it may name.

    Raises:
        AssertionRefused: The first check that fails gives the cause: ``text``, ``header``, ``payload``, ``typ``,
            ``alg``, ``claims``, ``key``, ``client``, ``audience``, ``expiry``, ``iat``, ``nbf`` or ``jti``.

    """
    try:
        header = read_header(text, types=TYPES)
        claims = msgspec.convert(codec.payload_of(text), _Claims)
    except InvalidToken as error:
        raise AssertionRefused(error.reason) from error
    except msgspec.ValidationError as error:
        raise AssertionRefused("claims") from error
    if header["alg"] not in profile.signing:
        raise AssertionRefused("alg")
    if not is_signed_by(jwks, header, text):
        raise AssertionRefused("key")
    _require_in_force(claims, client_id=client_id, now=clock.unix(), audiences=_audiences(profile))
    digest = sha256(f"{client_id}\0{claims.jti}".encode()).digest()
    return Assertion(UUID(bytes=digest[:16]), int(claims.exp) + 1)


def _audiences(profile: Profile) -> tuple[str | list[str], ...]:
    """Return what ``aud`` may be."""
    issuer: str = settings.IRONAUTH_ISSUER
    if profile.issuer_alone:
        return (issuer,)
    endpoint = issuer + TOKEN_PATH
    return issuer, [issuer], endpoint, [endpoint]


def _require_in_force(claims: _Claims, *, client_id: str, now: float, audiences: tuple[str | list[str], ...]) -> None:
    """Raise ``AssertionRefused`` unless the client made the assertion for this server, and for now."""
    ahead = now + CLOCK_LEEWAY_S
    if not claims.iss == claims.sub == client_id:
        raise AssertionRefused("client")
    if claims.aud not in audiences:
        raise AssertionRefused("audience")
    if not now < claims.exp <= ahead + MAX_LIFE_S:
        raise AssertionRefused("expiry")
    if claims.iat is not None and claims.iat > ahead:
        raise AssertionRefused("iat")
    if claims.nbf is not None and claims.nbf > ahead:
        raise AssertionRefused("nbf")
    if not claims.jti:
        raise AssertionRefused("jti")


def read_header(text: str, *, types: frozenset[str], longest: int = MAX_TOKEN_BYTES) -> dict[str, Any]:
    """Return the header of what a client has signed, unverified.

    A key in it (``jwk``, ``jku``, ``x5u``, ``x5c``) is never looked at.

    Args:
        text: The JWT as it was received.
        types: What it may call itself, in lower case; without a name it is a ``jwt``.
        longest: Bytes; a longer text is refused unread.

    Raises:
        InvalidToken: It is no signed JWT, is another kind of token, or names an algorithm that is not known here.
    """
    header = codec.header_of(text, longest=longest)
    typ = header.get("typ", "JWT")
    if not isinstance(typ, str) or typ.lower().removeprefix("application/") not in types:
        raise InvalidToken("typ")
    if "crit" in header or "b64" in header or header.get("alg") not in ALGORITHM_NAMES:
        raise InvalidToken("alg")
    return header


def is_signed_by(jwks: Mapping[str, Any], header: dict[str, Any], text: str) -> bool:
    """Return whether one of a client's registered keys has signed the text.

    Args:
        jwks: The client's registered public keys.
        header: From ``read_header``.
        text: The JWT in compact form.
    """
    return any(has_signed(key, header["alg"], text) for key in _candidates(header, jwks))


def _candidates(header: dict[str, Any], jwks: Mapping[str, Any]) -> list[OKPKey | ECKey | RSAKey]:
    """Return the client's keys that may have signed with this header: by their kind, use, algorithm and name."""
    alg, kid = header["alg"], header.get("kid")
    return [
        public_key(key)
        for key in jwks["keys"]
        if may_have_signed(key, alg) and (kid is None or key.get("kid", kid) == kid)
    ]


def public_key(jwk: Mapping[str, Any]) -> PublicKey:
    """Return the key of a JWK that ``keys.problem_of_key`` has passed.

    Of its numbers alone: whatever else the JWK says means nothing to the key, and would raise where it is malformed.
    """
    return _KINDS[jwk["kty"]].import_key({name: jwk[name] for name in _MEMBERS[jwk["kty"]]})


def has_signed(key: PublicKey, alg: str, text: str) -> bool:
    """Return whether the key has signed this text by this algorithm, one of ``ALGORITHM_NAMES``.

    Args:
        key: A public key.
        alg: The algorithm that the header names.
        text: The JWT in compact form.
    """
    try:
        jws.deserialize_compact(text, key, registry=_REGISTRIES[alg])
    except (JoseError, ValueError, TypeError, RecursionError):
        return False
    return True
