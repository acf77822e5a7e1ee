"""Access tokens on the wire: JWS compact serialisation (RFC 7515 §7.1) of claims, typed at+jwt (RFC 9068 §2.1).

Ed25519, unless the token's client says otherwise. Each is verified by the algorithm of the very key that it names,
one of ours; ``typ`` keeps ID tokens of the same keys apart. ``decode`` checks *everything* a token can be refused for
without a database: text, header, signature, claims. Leeway: none for ``exp`` (a token is dead in the second it names),
``CLOCK_LEEWAY_S`` for ``iat`` and ``nbf``.
"""

import base64
import re
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from django.conf import settings
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwa import EdDSAAlgorithm, JWSAlgModel
from joserfc.util import urlsafe_b64decode

from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.telemetry import metrics
from tokens.errors import InvalidToken, UnknownKey
from tokens.keys.key_set import ActiveKey, KeySet, VerifyingKey

MAX_TOKEN_BYTES = 4_096  # 4 KiB: our longest token is under 1 KiB; refused before any parsing (rfc8725bis §3.15)
#: The member of ``cnf`` that names a certificate.
X5T: Final = "x5t#S256"
CLOCK_LEEWAY_S = 60  # seconds another worker's clock may be ahead of this one
TYP = "at+jwt"
COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class QuietEdDSA(EdDSAAlgorithm):
    """EdDSA without joserfc's warning that RFC 9864 deprecates the name: ours is deliberate (security-bar 1).

    Silenced here instead of in the warning filters, which are process-wide and not safe between threads.
    """

    security_warning = None  # type: ignore[assignment] # JWSAlgModel allows it


class _Registry(jws.JWSRegistry):
    """The only signature algorithms this module knows: a foreign ``alg`` cannot be reached by any mistake."""

    algorithms: dict[str, JWSAlgModel] = {
        "EdDSA": QuietEdDSA(),
        **{alg: jws.JWSRegistry.algorithms[alg] for alg in ("Ed25519", "ES256", "RS256")},
    }


#: By algorithm: what verifies by that one alone, and what signs.
REGISTRIES: Final = {alg: _Registry(algorithms=[alg]) for alg in _Registry.algorithms}
SIGNERS: Final = {alg: registry.get_alg(alg) for alg, registry in REGISTRIES.items()}


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who acts for the person (RFC 8693 §4.1): a client, and the one that acted before it; or a member of staff.

    ``kind`` tells an id of a client from an id of a member of staff; it is left out for clients, whose tokens had no
    such member at first. Another kind is no actor of ours.
    """

    sub: str
    act: "Actor | None" = None
    kind: Literal["client", "staff"] = "client"


class AccessClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims of one access token; times in unix seconds.

    ``sid`` names the session, ``epoch`` is the user's session epoch at issue: raising the epoch ends every token
    at once. ``nbf`` is honoured when present, never issued: a client whose clock runs behind would refuse the token.
    ``aud`` is one exact string, or several for a token that is for several APIs (RFC 8707 §2).

    A token that a client has for itself (RFC 6749 §4.4) names no session: ``sid`` is missing, ``sub`` is the client.
    ``cnf``: the key that alone may use the token, ``{"jkt": thumbprint}`` (RFC 9449 §6.1), or the certificate,
    ``{"x5t#S256": thumbprint}`` (RFC 8705 §3.1). ``act``: who acts for ``sub``.
    ``authorization_details``: what the person has allowed beyond the scope (RFC 9396 §9.1). ``org_id``: the
    organization that the person acts for, and ``org_roles``: their roles there.
    """

    iss: str
    sub: UUID
    aud: str | tuple[str, ...]
    client_id: str
    iat: int
    exp: int
    jti: str
    scope: str
    epoch: int
    roles: tuple[str, ...]
    sid: UUID | None = None
    nbf: int | None = None
    cnf: dict[str, str] | None = None
    act: Actor | None = None
    authorization_details: tuple[dict[str, Any], ...] = ()
    org_id: UUID | None = None
    org_roles: tuple[str, ...] = ()

    @property
    def jkt(self) -> str:
        """The thumbprint of the key that alone may use it; "" for none."""
        return self.cnf.get("jkt", "") if self.cnf is not None else ""

    @property
    def x5t(self) -> str:
        """The thumbprint of the certificate that alone may use it; "" for none."""
        return self.cnf.get(X5T, "") if self.cnf is not None else ""

    @property
    def holders(self) -> tuple[str, ...]:
        """The client that has the token, and those that acted for the person before it."""
        found, act = [self.client_id], self.act
        while act is not None:
            if act.kind == "client":
                found.append(act.sub)
            act = act.act
        return tuple(dict.fromkeys(found))

    @property
    def staff(self) -> str | None:
        """The id of the member of staff who is signed in as ``sub``; None for every other token."""
        return self.act.sub if self.act is not None and self.act.kind == "staff" else None


class VerifiedToken(NamedTuple):
    """The claims of a token whose every check passed, and the key that signed it."""

    claims: AccessClaims
    kid: str


def confirmation(*, jkt: str = "", x5t: str = "") -> dict[str, str] | None:
    """Return how a token names what it is bound to: a key, a certificate, or nothing.

    Args:
        jkt: The thumbprint of a key (RFC 9449 §6.1).
        x5t: The thumbprint of a certificate (RFC 8705 §3.1).
    """
    return {"jkt": jkt} if jkt else {X5T: x5t} if x5t else None


def encode(claims: AccessClaims, active: ActiveKey) -> str:
    """Return the signed token; its header names the key and the key's own algorithm.

    Args:
        claims: The claims, complete.
        active: The key that signs.
    """
    return compact(claims, active, SIGNERS[active.alg], typ=TYP)


def compact(claims: object, active: ActiveKey, signer: JWSAlgModel, *, typ: str) -> str:
    """Return ``claims`` signed, as ``jws.serialize_compact`` would.

    The library builds and checks the header anew each time, which was more than half of the 110 µs of a token.

    Args:
        claims: Whatever msgspec writes as a JSON object.
        active: The key that signs.
        signer: The algorithm's implementation, fit for the key.
        typ: The ``typ`` of the header, which keeps kinds of tokens apart (RFC 8725 §3.11); "" for none.
    """
    payload = base64.urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=")
    signed = b"%b.%b" % (_header(active.alg, active.kid, typ), payload)
    signature = base64.urlsafe_b64encode(signer.sign(signed, active.key)).rstrip(b"=")
    if metrics.recorder is not None:
        metrics.recorder.count("ironauth_tokens_issued", typ or "none")
    return (b"%b.%b" % (signed, signature)).decode()


def decode(token: str, keys: KeySet, *, now: float) -> VerifiedToken:
    """Return what ``token`` says when it is ours, for us and in force at ``now`` (unix seconds).

    Args:
        token: The text as it was received.
        keys: The keys that this server signs with, or did.
        now: Unix seconds.

    Raises:
        UnknownKey: Its key is not in ``keys``.
        InvalidToken: Any other reason.
    """
    key = _key_of(token, keys, now)
    _verify_signature(token, key)
    return _judged(token, key, now)


def decode_vouched(token: str, keys: KeySet, *, now: float) -> VerifiedToken:
    """Return what ``decode`` would of a token whose signature is *not* checked: something else vouches for it.

    Args:
        token: The text as it was received.
        keys: The keys that this server signs with, or did.
        now: Unix seconds.

    Raises:
        UnknownKey: Its key is not in ``keys``.
        InvalidToken: Any other reason, but for the signature.
    """
    return _judged(token, _key_of(token, keys, now), now)


def require_signature(token: str, kid: str, keys: KeySet, *, now: float) -> None:
    """Check what ``decode_vouched`` has left out.

    Args:
        token: The text, as ``decode_vouched`` has taken it.
        kid: The key that it names.
        keys: The same keys.
        now: Unix seconds.

    Raises:
        UnknownKey: The key has ended meanwhile.
        InvalidToken: The signature is not good.
    """
    key = keys.verifier(kid, now)
    if key is None:
        raise UnknownKey("kid")
    _verify_signature(token, key)


def _verify_signature(token: str, key: VerifyingKey) -> None:
    try:
        jws.deserialize_compact(token, key.key, registry=REGISTRIES[key.alg])
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise InvalidToken("signature") from error


def _key_of(token: str, keys: KeySet, now: float) -> VerifyingKey:
    header = header_of(token)
    _check_header(header)
    key = keys.verifier(header["kid"], now)
    if key is None:
        raise UnknownKey("kid")
    if header["alg"] != key.alg:
        raise InvalidToken("alg")
    return key


def _judged(token: str, key: VerifyingKey, now: float) -> VerifiedToken:
    claims = claims_of(token)
    if not is_own(claims.aud):
        raise InvalidToken("aud")
    check_claims(claims, now)
    return VerifiedToken(claims, key.kid)


@lru_cache(maxsize=64)  # a few keys, three types
def _header(alg: str, kid: str, typ: str) -> bytes:
    fields = {"alg": alg, "kid": kid, **({"typ": typ} if typ else {})}
    return base64.urlsafe_b64encode(msgspec.json.encode(fields)).rstrip(b"=")


def _check_header(header: dict[str, Any]) -> None:
    """Refuse what RFC 7515 §4.1.11 (crit), RFC 7797 (b64) and RFC 9068 §4 (typ) forbid.

    ``jwk``, ``jku``, ``x5u`` and ``x5c`` are never looked at: a key comes from the key set or not at all (ASVS 9.1.3).
    """
    if "crit" in header or "b64" in header:
        raise InvalidToken("crit")
    typ = header.get("typ")
    # RFC 7515 §4.1.9: a media type, hence without regard to case, and "application/" may be left out.
    if not isinstance(typ, str) or typ.lower().removeprefix("application/") != TYP:
        raise InvalidToken("typ")
    if not isinstance(header.get("alg"), str) or header["alg"] not in REGISTRIES:
        raise InvalidToken("alg")
    if not isinstance(header.get("kid"), str):
        raise InvalidToken("kid")


def is_own(audience: str | tuple[str, ...]) -> bool:
    """Return whether a token of this ``aud`` is for this server's own API, alone or among others."""
    expected = settings.IRONAUTH_AUDIENCE
    return audience == expected if isinstance(audience, str) else expected in audience


def check_claims(claims: AccessClaims, now: float) -> None:
    """Refuse a token of another issuer, expired, or from the future (RFC 9068 §4), whichever audience it is for.

    Args:
        claims: What a token says whose signature is good.
        now: Unix seconds.

    Raises:
        InvalidToken: Naming the claim.
    """
    if claims.iss != settings.IRONAUTH_ISSUER:
        raise InvalidToken("iss")
    if now >= claims.exp:  # RFC 7519 §4.1.4: "on or after"
        raise InvalidToken("exp")
    if claims.iat > now + CLOCK_LEEWAY_S:
        raise InvalidToken("iat")
    if claims.nbf is not None and claims.nbf > now + CLOCK_LEEWAY_S:
        raise InvalidToken("nbf")
    if claims.cnf is not None and (len(claims.cnf) != 1 or not (claims.jkt or claims.x5t)):
        raise InvalidToken("cnf")  # bound to what nobody here can judge
    if not claims.jti or not claims.client_id:
        raise InvalidToken("claims")
    if claims.sid is None and str(claims.sub) != claims.client_id:  # only a client's own token names no session
        raise InvalidToken("claims")
    if (claims.org_id is None) != (not claims.org_roles) or (claims.org_id is not None and claims.sid is None):
        raise InvalidToken("org_id")
    if claims.act is not None and not _stands_alone(claims.act):
        raise InvalidToken("act")


def _stands_alone(act: Actor) -> bool:
    """Return whether a member of staff acts with no client before or behind them; True where only clients act."""
    if act.kind == "staff":
        return act.act is None
    former = act.act
    while former is not None:
        if former.kind == "staff":
            return False
        former = former.act
    return True


def header_of(token: str, *, longest: int = MAX_TOKEN_BYTES) -> dict[str, Any]:
    """Return the header of a signed token, unverified.

    This and ``payload_of`` are the only readers of a token that nobody has verified (RFC 8725 §2.4): each text is
    bounded here in size, alphabet, nesting and repeated members, whatever kind of token it claims to be.

    Args:
        token: The text as it was received.
        longest: Bytes; a longer text is refused unread.

    Raises:
        InvalidToken: The text is no signed token.
    """
    return json_object(_segments(token, longest)[0], "header")


def payload_of(token: str, *, longest: int = MAX_TOKEN_BYTES) -> dict[str, Any]:
    """Return the payload of a signed token, unverified.

    Args:
        token: The text as it was received.
        longest: Bytes; a longer text is refused unread.

    Raises:
        InvalidToken: The text is no signed token.
    """
    return json_object(_segments(token, longest)[1], "payload")


def claims_of(token: str) -> AccessClaims:
    """Return what the payload of an access token says, unverified.

    Raises:
        InvalidToken: The text is no access token.
    """
    try:
        return msgspec.convert(payload_of(token), AccessClaims)
    except msgspec.ValidationError as error:
        raise InvalidToken("claims") from error


def _segments(token: str, longest: int = MAX_TOKEN_BYTES) -> list[str]:
    if len(token) > longest or COMPACT.fullmatch(token) is None:
        raise InvalidToken("text")
    return token.split(".")


def json_object(segment: str, part: str) -> dict[str, Any]:
    """Return the JSON object of a canonical base64url ``segment``.

    Args:
        segment: A segment of a token.
        part: What the segment is, as the error names it.

    Raises:
        InvalidToken: Another spelling of the same bytes, or what ``strict_json`` refuses: a byte order mark, an
            encoding other than UTF-8, NaN, nesting without bound, and a repeated member (RFC 7515 §4 lets a parser
            refuse it, and two readers may disagree about it).
    """
    try:
        value = strict_json.loads(urlsafe_b64decode(segment.encode()))
    except ValueError as error:
        raise InvalidToken(part) from error
    if not isinstance(value, dict):
        raise InvalidToken(part)
    return value
