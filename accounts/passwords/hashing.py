"""Judging and hashing passwords, always on the hash pool: new ones by Argon2id, with a pepper where there is one.

With ``IRONAUTH_HASH_WORKERS`` another machine may do the run. It gets the MAC under a pepper, the salt and the costs,
and returns the raw hash, which is compared here. Passwords hashed without a pepper never leave.

A hash made without the pepper, with an older pepper of the ring, with other costs or by another hasher of
``PASSWORD_HASHERS`` still verifies, and ``Verdict.needs_rehash`` asks for a new one. A hash whose pepper left the ring
verifies nothing any more.

Every refusal costs one Argon2 run at the present cost, whatever its reason, with two exceptions. A wrong password
against Argon2 of another cost takes one run at *that* cost. A wrong password against another algorithm takes that
algorithm, then a wait up to the mean Argon2 time. Both end for an account with its next sign-in.
"""

import asyncio
import time
from functools import partial
from typing import Any, NamedTuple

from django.contrib.auth.hashers import (
    BasePasswordHasher,
    get_hasher,
    identify_hasher,
    is_password_usable,
    make_password,
)

from accounts.passwords import breached as breached_passwords
from accounts.passwords.formats import too_long
from accounts.passwords.formats.argon2 import movable
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger


class Verdict(NamedTuple):
    """What judging a password against a stored hash has found.

    Attributes:
        ok: The password is right.
        needs_rehash: Its hash should be made anew, with today's costs and pepper.
        breached: It is right, and in the list of breached ones.
    """

    ok: bool
    needs_rehash: bool
    breached: bool = False


async def hash_password(password: str) -> str:
    """Return the stored form of ``password``, hashed on the pool.

    Raises:
        ValueError: It has more than 1,024 code points.
        Overloaded: The hash pool is full.
    """
    return await hash_pool().run(partial(make_password, password), movable=True)


async def verify_password(password: str, encoded: str | None) -> Verdict:
    """Judge ``password`` with one hop to the pool and one Argon2 run.

    The cost is the same where there is no hash, and for an unusable hash or one of an unknown format.

    Args:
        password: What was typed.
        encoded: The stored hash; None where there is no account, which takes as long.

    Raises:
        Overloaded: The hash pool is full.
    """
    verdict, missing_s = await hash_pool().run(partial(_judge, password, encoded), movable=movable(encoded))
    if missing_s:
        await asyncio.sleep(missing_s)
    return verdict


def _judge(password: str, encoded: str | None) -> tuple[Verdict, float]:
    """Return the verdict, and the seconds a cheaper algorithm should still wait; on a pool thread.

    A wrong password is looked up in the list of breached ones too, as a right one is. Otherwise 0.15 ms would tell a
    right password of an account that is refused all the same. Without a stored hash, one of no account is judged:
    making a new one instead took 0.05 ms less, which would tell that there is no account.
    """
    preferred: Any = get_hasher()
    acceptable = not too_long(password)
    breached = acceptable and breached_passwords.is_breached(password)
    hasher = _hasher_of(encoded) if acceptable else None
    if hasher is None or encoded is None:
        encoded = preferred.nobodys()
        hasher = _hasher_of(encoded) or preferred
    began = time.monotonic()
    try:
        ok = hasher.verify(password, encoded)
    except Overloaded:
        raise
    except Exception:  # noqa: BLE001 - whatever it was, it is logged, and the docstring says what follows
        get_logger().exception("password_hash_refused", reason="unreadable", algorithm=hasher.algorithm)
        preferred.encode("", preferred.salt())
        return Verdict(ok=False, needs_rehash=False), 0.0
    needs_rehash = hasher is not preferred or preferred.must_update(encoded)
    if ok:
        return Verdict(ok=True, needs_rehash=needs_rehash, breached=breached), 0.0
    elapsed_s = time.monotonic() - began
    missing_s = 0.0 if hasher is preferred else max(0.0, hash_pool().stats().mean_hash_s - elapsed_s)
    return Verdict(ok=False, needs_rehash=False), missing_s


def _hasher_of(encoded: str | None) -> BasePasswordHasher | None:
    """Return the installed hasher that wrote ``encoded``, or nothing where there is none to ask."""
    if not encoded or not is_password_usable(encoded):
        return None
    try:
        return identify_hasher(encoded)
    except ValueError:
        return None
