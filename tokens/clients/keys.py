"""Public keys of clients that sign who they are (``private_key_jwt``): which sets are accepted (RFC 7517 §5)."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_KEYS: Final = 10  # two are in use while one replaces the other
MAX_FILE_BYTES: Final = 65_536  # as of a request's body; ten keys of 8,192 bits are 15 KiB
MAX_CHARACTERS: Final = 4_096  # of one member; an RSA modulus of 16,384 bits has 2,731
#: RFC 7518 §6, RFC 8037 §2: any of these members is a secret, or a part of one.
PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
#: What may sign an assertion, by type of key and curve.
ALGORITHMS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("OKP", "Ed25519"): frozenset({"EdDSA", "Ed25519"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("RSA", ""): frozenset({"RS256", "PS256"}),
}
#: The two names of one signature (RFC 8037 §3.1, RFC 9864 §2.2).
NAMES: Final = dict.fromkeys(("EdDSA", "Ed25519"), frozenset({"EdDSA", "Ed25519"}))
COORDINATE_BYTES: Final = 32  # P-256 and Ed25519
RSA_BITS: Final = (2_048, 8_192)  # RFC 7518 §3.3; verifying with more takes longer than a request should
RSA_EXPONENTS: Final = (3, 2**32 - 1)


def problem_of(jwks: object) -> str | None:
    """Return why this is no set of public keys an assertion can be checked with, ending with the remedy."""
    if not isinstance(jwks, dict) or not isinstance(keys := jwks.get("keys"), list):
        return 'This is no JWK set: write {"keys": [ … ]} with the public keys.'
    if not 1 <= len(keys) <= MAX_KEYS:
        return f"A set has 1 to {MAX_KEYS} keys: leave out those that sign no more."
    if not _is_storable(jwks):
        return "The set has NaN, NUL or half a character in it, which no database takes: export the keys anew."
    named: set[str] = set()
    for at, key in enumerate(keys, start=1):
        problem = problem_of_key(key) if isinstance(key, dict) else "is no object: write each key as a JWK"
        if problem is None:
            kid = key.get("kid")
            if len(keys) > 1 and not kid:
                problem = "has no kid, and there are several: give each key one"
            elif kid in named:
                problem = "has the kid of another one: give each key its own"
            elif kid:
                named.add(kid)
        if problem is not None:
            return f"Key {at} {problem}."
    return None


def can_sign(jwks: Mapping[str, Any], alg: str) -> bool:
    """Return whether one of the keys may have signed by this algorithm.

    Args:
        jwks: A set that ``problem_of`` has passed.
        alg: The algorithm.
    """
    return any(may_have_signed(key, alg) for key in jwks["keys"])


def may_have_signed(key: Mapping[str, Any], alg: str) -> bool:
    """Return whether a key signs by this algorithm: by its kind, and by the algorithm that it names, if it does.

    A key that names EdDSA signs what says Ed25519, and the reverse: libraries change from the one name to the other,
    and a set that is registered here does not change with them.

    Args:
        key: A key that ``problem_of_key`` has passed.
        alg: The algorithm that the header of a text names.
    """
    signs = ALGORITHMS.get((key["kty"], key.get("crv", "")), frozenset())
    return alg in signs and (key.get("alg") or alg) in NAMES.get(alg, {alg})


def _is_storable(jwks: object) -> bool:
    """Return whether it is JSON as Postgres understands it, whatever other members there are."""
    try:
        text = json.dumps(jwks, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return b"\\u0000" not in text


def problem_of_key(key: dict[str, Any]) -> str | None:
    """Return why this is no public key for signatures, with the remedy; None for a good one."""
    if PRIVATE_MEMBERS & key.keys() or key.get("kty") == "oct":
        return (
            "has its private part: this server wants public keys only. Consider the key known to others now, make a "
            "new pair and send what is public of it"
        )
    for name in ("kty", "crv", "kid", "use", "alg", "x", "y", "n", "e"):
        if not isinstance(key.get(name, ""), str) or len(key.get(name, "")) > MAX_CHARACTERS:
            return f"has a member {name} that is no text, or too long: correct it"
    kind = key.get("kty", ""), key.get("crv", "")
    algorithms = ALGORITHMS.get(kind)
    if algorithms is None:
        return "is none of OKP with Ed25519, EC with P-256, and RSA: make one of these"
    if key.get("alg") and key["alg"] not in algorithms:
        return f"names an algorithm it cannot be used with here: write {' or '.join(sorted(algorithms))}"
    operations = key.get("key_ops", ["verify"])
    if key.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return 'is not for signatures: leave out use and key_ops, or write "use": "sig"'
    return _problem_of_numbers(key)


def _problem_of_numbers(key: dict[str, Any]) -> str | None:
    """Return why the key's numbers are no key."""
    try:
        if key["kty"] == "OKP":
            Ed25519PublicKey.from_public_bytes(_bytes(key, "x"))
        elif key["kty"] == "EC":
            EllipticCurvePublicNumbers(_number(key, "x"), _number(key, "y"), SECP256R1()).public_key()
            if {len(_bytes(key, name)) for name in ("x", "y")} != {COORDINATE_BYTES}:
                return f"has coordinates of other than {COORDINATE_BYTES} bytes (RFC 7518 §6.2.1.2): pad them"
        else:
            least, most = RSA_BITS
            modulus, exponent = _number(key, "n"), _number(key, "e")
            if not least <= modulus.bit_length() <= most:
                return f"has {modulus.bit_length():,} bits: make one of {least:,} to {most:,}"
            if not RSA_EXPONENTS[0] <= exponent <= RSA_EXPONENTS[1] or not exponent % 2 or not modulus % 2:
                return "has numbers that are no RSA key: export it anew"
    except (KeyError, ValueError, binascii.Error):
        return "lacks a member, or has one that is no part of a key: export it anew"
    return None


def _bytes(key: dict[str, Any], name: str) -> bytes:
    """Return what base64url spells (RFC 7515 §2); raise ``ValueError`` for anything else, padding too."""
    text = key[name]
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if not raw or base64.urlsafe_b64encode(raw).rstrip(b"=") != text.encode():
        raise ValueError(name)
    return raw


def _number(key: dict[str, Any], name: str) -> int:
    return int.from_bytes(_bytes(key, name), "big")
