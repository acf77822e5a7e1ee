"""Reading a stored Argon2 hash: its parts, and bounds on what it may ask this server to do."""

from typing import Final, NamedTuple

import argon2

ALGORITHM: Final = "argon2"  # the name Django's own hasher uses, so that its hashes are read as well
PEPPER_MARK: Final = "pepper="
# Bounds on what a stored hash may ask for, so that a planted row cannot exhaust the server (alexedwards/argon2id#35).
_MAX_MEMORY_KIB: Final = 1_048_576  # 1 GiB
_MAX_TIME: Final = 20  # passes
_MAX_LANES: Final = 16
_HASH_LENGTHS: Final = range(16, 65)  # bytes; below 128 bits a hash would be guessable
_SALT_LENGTHS: Final = range(8, 65)  # bytes; RFC 9106 §3.1 allows no less than 8


class Stored(NamedTuple):
    """The readable parts of a stored hash."""

    pepper_id: str | None
    phc: str
    params: argon2.Parameters


def read(encoded: str) -> Stored | None:
    """Return the parts of an Argon2 ``encoded``, or nothing where it is malformed or beyond the bounds above."""
    prefix, _sep, rest = encoded.partition("$")
    pepper_id = None
    if rest.startswith(PEPPER_MARK):
        pepper_id, _sep, rest = rest.removeprefix(PEPPER_MARK).partition("$")
    phc = "$" + rest
    try:
        params = argon2.extract_parameters(phc)
    except argon2.exceptions.InvalidHashError:
        return None
    sane = (
        prefix == ALGORITHM
        and encoded.isascii()
        and 1 <= params.time_cost <= _MAX_TIME
        and 1 <= params.parallelism <= _MAX_LANES
        and 8 * params.parallelism <= params.memory_cost <= _MAX_MEMORY_KIB  # RFC 9106 §3.1
        and params.hash_len in _HASH_LENGTHS
        and params.salt_len in _SALT_LENGTHS
    )
    return Stored(pepper_id, phc, params) if sane else None
