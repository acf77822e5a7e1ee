"""Signed tokens as such: their header, their signature, their JSON. What claims mean is decided elsewhere."""

import re
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwa import EdDSAAlgorithm, JWSAlgModel
from joserfc.jwk import ECKey, Key, KeySet, OKPKey, RSAKey

from ironauth_client.config import ID_ALGORITHMS
from ironauth_client.errors import InvalidToken

MAX_TOKEN_BYTES: Final = 8_192  # refused before anything is parsed (RFC 8725)
COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
MOST_KEYS: Final = 64  # of a key set; IronAuth shows three of each family


class _QuietEdDSA(EdDSAAlgorithm):
    """EdDSA without joserfc's warning about its name (RFC 9864), which is for those who sign."""

    security_warning = None  # type: ignore[assignment] # JWSAlgModel allows it


class _Registry(jws.JWSRegistry):
    """The algorithms of IronAuth and no other: none and HMAC are out of reach."""

    algorithms: dict[str, JWSAlgModel] = {
        name: _QuietEdDSA() if name == "EdDSA" else jws.JWSRegistry.algorithms[name] for name in ID_ALGORITHMS
    }


def registry(algorithms: tuple[str, ...]) -> jws.JWSRegistry:
    """Return a registry that knows the given algorithms alone."""
    return _Registry(algorithms=list(algorithms))


def header(token: str, *, typ: str | None, algorithms: tuple[str, ...]) -> dict[str, Any]:
    """Return the header of a compact JWS, not yet verified.

    Args:
        token: The token's text.
        typ: The type it must have; None accepts ``JWT`` and a missing one.
        algorithms: The algorithms it may be signed with.

    Raises:
        InvalidToken: The text is no JWS, of another type, or of another algorithm.
    """
    if len(token) > MAX_TOKEN_BYTES or not COMPACT.fullmatch(token):
        raise InvalidToken("not a signed token")
    try:
        found = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, RecursionError) as error:
        raise InvalidToken("not a signed token") from error
    if not isinstance(found, dict):
        raise InvalidToken("not a signed token")
    if found.get("alg") not in algorithms:
        raise InvalidToken("the token is signed with another algorithm")
    named = found.get("typ")
    if named is not None and not isinstance(named, str):
        raise InvalidToken("the token is of another type")
    short = (named or "").lower().removeprefix("application/")
    if (short != typ) if typ else (short not in ("", "jwt")):
        raise InvalidToken("the token is of another type")
    return found


def payload(token: str, key: Key, *, algorithms: tuple[str, ...]) -> bytes:
    """Return the payload of a JWS whose signature is of the given key.

    Raises:
        InvalidToken: It is not.
    """
    try:
        return bytes(jws.deserialize_compact(token, key, registry=registry(algorithms)).payload)
    except (JoseError, ValueError, TypeError) as error:
        raise InvalidToken("the signature is wrong") from error


def public_keys(document: object) -> dict[str, Key]:
    """Return the signature keys of a JWKS by their kid; keys of other kinds are left out (RFC 7517 §5).

    Raises:
        ValueError: It is no key set, or has more keys than a server of ours ever shows.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ValueError("no key set")
    found: dict[str, Key] = {}
    for member in listed:
        if not isinstance(member, dict) or member.get("use", "sig") != "sig" or not isinstance(member.get("kid"), str):
            continue
        try:
            key = KeySet.import_key_set({"keys": [member]}).keys[0]
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, OKPKey | ECKey | RSAKey) and not key.is_private:
            found[member["kid"]] = key
    return found
