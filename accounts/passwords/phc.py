"""Reading and writing a stored Argon2 hash: its parts, and bounds on what it may ask this server to do."""

import binascii
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

import argon2
from argon2.low_level import Type

from ironauth.infrastructure.hashing import argon2_bounds as bounds

ALGORITHM: Final = "argon2"  # the name Django's own hasher uses, so that its hashes are read as well
PEPPER_MARK: Final = "pepper="
_VARIETIES: Final = {Type.D: "argon2d", Type.I: "argon2i", Type.ID: "argon2id"}
_UNNAMED_VERSION: Final = 16  # Argon2 1.0, whose first hashes do not say so (the library's reader calls them 18)
_VERSIONS: Final = frozenset({_UNNAMED_VERSION, 19})  # ARGON2_VERSION_10 and _13 of argon2.h: there are no others


class Stored(NamedTuple):
    """The readable parts of a stored hash."""

    pepper_id: str | None
    phc: str
    params: argon2.Parameters
    salt: bytes
    digest: bytes


def read(encoded: str) -> Stored | None:
    """Return the parts of an Argon2 ``encoded``, or nothing where it is malformed or beyond ``argon2_bounds``."""
    prefix, _sep, rest = encoded.partition("$")
    pepper_id = None
    if rest.startswith(PEPPER_MARK):
        pepper_id, _sep, rest = rest.removeprefix(PEPPER_MARK).partition("$")
    phc = "$" + rest
    try:
        params = argon2.extract_parameters(phc)
    except argon2.exceptions.InvalidHashError:
        return None
    named = "$v=" in phc
    if not named:
        params.version = _UNNAMED_VERSION
    sane = (
        prefix == ALGORITHM
        and encoded.isascii()
        and params.version in _VERSIONS
        and 1 <= params.time_cost <= bounds.MAX_TIME
        and 1 <= params.parallelism <= bounds.MAX_LANES
        and 8 * params.parallelism <= params.memory_cost <= bounds.MAX_MEMORY_KIB  # RFC 9106 §3.1
        and params.hash_len in bounds.HASH_LENGTHS
        and params.salt_len in bounds.SALT_LENGTHS
    )
    if not sane:
        return None
    try:
        salt, digest = (b64decode(part + "=" * (-len(part) % 4), validate=True) for part in phc.split("$")[-2:])
    except binascii.Error:
        return None
    # One spelling only: whatever else the parts above were read from (bits left over, zeros in front) is malformed.
    spelled = write(params, salt, digest, named=named)
    return Stored(pepper_id, phc, params, salt, digest) if spelled == phc else None


def write(params: argon2.Parameters, salt: bytes, digest: bytes, *, named: bool = True) -> str:
    """Return the PHC string of a raw hash, as the reference implementation's ``encode_string`` spells it.

    Not ``named``: without its version, as before Argon2 1.1.
    """
    version = f"v={params.version}$" if named else ""
    costs = f"m={params.memory_cost},t={params.time_cost},p={params.parallelism}"
    salted, hashed = (b64encode(part).rstrip(b"=").decode("ascii") for part in (salt, digest))
    return f"${_VARIETIES[params.type]}${version}{costs}${salted}${hashed}"
