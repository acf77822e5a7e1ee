"""What ``ironauth.settings`` needs beside single values: defaults from the machine, secrets, contradictions.

Single values are read by ``environment`` (words and numbers) and ``addresses``. This module is imported while the
settings are being read, so nothing here may touch ``django.conf.settings``. No message repeats the value it refuses: it
may be a secret, and start-up errors end up in logs.
"""

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from ironauth.config.addresses import is_local

# 32 random bytes are 43 base64url characters: the least that carries 256 bits (RFC 7518 §3.2 asks 256 for HS256).
MIN_SECRET_CHARACTERS = 43
# Django's own deployment check (security.W009) calls fewer different characters insecure.
MIN_DIFFERENT_CHARACTERS = 5
PLACEHOLDERS = ("change-me", "changeme", "change_me", "placeholder", "insecure", "secret", "example", "password")
LABORATORY_URLS = "perf.urls"  # by name only: nothing imports the laboratory, which a deployment may leave out
KEY_BYTES = 32  # 256 bits: AES-256-GCM and HMAC-SHA-256 keys are derived from it
# 32 random bytes with fewer than 8 different values have a probability below 2**-100: it was typed, not drawn.
MIN_DIFFERENT_KEY_BYTES = 8
KEY_ID = re.compile(r"[a-z0-9]{1,16}")
PRINTABLE = re.compile(r"[!-~]{1,255}")
MAX_HASH_THREADS = 4  # of 64 MiB each: the default keeps password hashing under 256 MiB (design §3)
MAX_DATABASE_THREADS = 8  # times the workers, this must stay below Postgres' own default of 100 connections
SQLITE_CACHE_KIB = 8_192  # per connection; SQLite's own default of 2,000 KiB is for phones
SQLITE_MMAP_BYTES = 128 * 1024 * 1024  # address space, not memory: reads skip one copy
SQLITE_WAL_BYTES = 64 * 1024 * 1024  # a burst of writes gives its disk space back afterwards

# (t, m in KiB) pairs of equal defence, OWASP Password Storage Cheat Sheet, "Argon2id".
ARGON2_FLOORS = ((1, 47_104), (2, 19_456), (3, 12_288), (4, 9_216), (5, 7_168))


def usable_cpus() -> int:
    """Return how many CPUs this process may run on (its affinity, not what the machine has); at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return max(os.cpu_count() or 1, 1)


def default_hash_threads() -> int:
    """Return the number of Argon2id threads of one process: one for each usable CPU, from 1 to 4."""
    return max(min(usable_cpus(), MAX_HASH_THREADS), 1)


def default_database_threads() -> int:
    """Return the number of database threads of one process: two for each usable CPU, from 2 to 8.

    On SQLite these are the readers (the single writer is extra); on Postgres it is the number of connections one
    worker holds. Two for each CPU, because a thread waits for Postgres about as long as it computes.
    """
    return max(min(2 * usable_cpus(), MAX_DATABASE_THREADS), 2)


def required_secret(value: str, name: str) -> str:
    """Return ``value`` when it may sign things.

    Args:
        value: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is empty, shorter than 43 characters, has fewer than 5 different ones, or is a
            placeholder somebody forgot to replace.
    """
    remedy = f"set {name} to the output of: python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"
    if not value:
        raise ImproperlyConfigured(f"{name} is missing: {remedy}")
    if len(value) < MIN_SECRET_CHARACTERS:
        raise ImproperlyConfigured(f"{name} has {len(value)} characters, at least {MIN_SECRET_CHARACTERS}: {remedy}")
    if len(set(value)) < MIN_DIFFERENT_CHARACTERS or any(word in value.casefold() for word in PLACEHOLDERS):
        raise ImproperlyConfigured(f"{name} is a placeholder, not a secret: {remedy}")
    return value


def key_ring(items: Sequence[str], name: str, *, required: bool) -> dict[str, bytes]:
    """Return ``{id: 32 bytes}`` from ``id:base64url`` items, in their order (newest first).

    Args:
        items: The items of the setting.
        name: The setting, for the error.
        required: Whether an empty setting is refused.

    Raises:
        ImproperlyConfigured: An item is malformed, an id or a key is repeated, a key is not 32 bytes or visibly not
            random, or there is none although ``required``.
    """
    remedy = (
        f"set {name} to id:key items separated by commas, newest first, each made by: python3 -c "
        "'import secrets; print(\"k1:\" + secrets.token_urlsafe(32))'"
    )
    ring: dict[str, bytes] = {}
    for position, item in enumerate(items, start=1):
        key_id, colon, text = item.strip().partition(":")
        if not colon or KEY_ID.fullmatch(key_id) is None:
            raise ImproperlyConfigured(f"{name}, item {position}: not id:key with an id of 1-16 [a-z0-9]; {remedy}")
        if key_id in ring:
            raise ImproperlyConfigured(f"{name}, item {position}: the id {key_id} is used twice; {remedy}")
        key = _key(text)
        if key is None or len(set(key)) < MIN_DIFFERENT_KEY_BYTES or key in ring.values():
            raise ImproperlyConfigured(
                f"{name}, item {position}: the key is not {KEY_BYTES} random bytes of its own in base64url; {remedy}"
            )
        ring[key_id] = key
    if required and not ring:
        raise ImproperlyConfigured(f"{name} is missing: {remedy}")
    return ring


def audience(value: str, name: str) -> str:
    """Return the ``aud`` of access tokens: 1 to 255 visible ASCII characters, compared byte for byte (RFC 7519 §2).

    Args:
        value: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It has other characters, or another length.
    """
    if PRINTABLE.fullmatch(value) is None:
        raise ImproperlyConfigured(
            f"{name} must have 1 to 255 visible ASCII characters without spaces: "
            f"correct it, e.g. {name}=https://id.example.com"
        )
    return value


def refuse_exposed_shortcuts(*, debug: bool, cookie_secure: bool, issuer: str, allowed_hosts: Sequence[str]) -> None:
    """Raise ``ImproperlyConfigured`` when DEBUG or cookies without Secure would face more than this machine.

    ASVS 13.4.2 and 3.3.1: both are for development, which is when the issuer and every allowed host are loopback.

    Args:
        debug: DEBUG.
        cookie_secure: IRONAUTH_COOKIE_SECURE.
        issuer: IRONAUTH_ISSUER, judged.
        allowed_hosts: ALLOWED_HOSTS, judged.
    """
    shortcuts = [
        (debug, "DEBUG=1", "DEBUG=0"),
        (not cookie_secure, "IRONAUTH_COOKIE_SECURE=0", "IRONAUTH_COOKIE_SECURE=1"),
    ]
    exposed = [
        (not is_local(urlsplit(issuer).hostname or ""), "IRONAUTH_ISSUER"),
        (not all(is_local(host) for host in allowed_hosts), "ALLOWED_HOSTS"),
    ]
    for taken, shortcut, remedy in shortcuts:
        for public, where in exposed:
            if taken and public:
                raise ImproperlyConfigured(
                    f"{shortcut} is for this machine alone, but {where} names another: set {remedy}, "
                    "or name only localhost and loopback addresses there"
                )


def refuse_idle_beyond_absolute(*, idle_s: int, absolute_s: int, of: str = "IRONAUTH_SESSION") -> None:
    """Raise ``ImproperlyConfigured`` when a session would end before it could be idle for too long.

    Args:
        idle_s: Seconds without use after which a session ends.
        absolute_s: Seconds after its start at which it ends in any case.
        of: The beginning of both settings' names.
    """
    if idle_s > absolute_s:
        raise ImproperlyConfigured(
            f"{of}_IDLE_S={idle_s} is longer than {of}_ABSOLUTE_S={absolute_s}, so that no "
            "idle session would end early: set it to at most that"
        )


def refuse_weak_argon2(*, time_cost: int, memory_kib: int, parallelism: int) -> None:
    """Raise ``ImproperlyConfigured`` when the parameters are below every pair of ``ARGON2_FLOORS``.

    Args:
        time_cost: Passes over the memory (RFC 9106, ``t``).
        memory_kib: KiB.
        parallelism: Lanes (RFC 9106, ``p``).
    """
    if parallelism >= 1 and any(time_cost >= t and memory_kib >= m for t, m in ARGON2_FLOORS):
        return
    raise ImproperlyConfigured(
        f"IRONAUTH_ARGON2_TIME_COST={time_cost}, IRONAUTH_ARGON2_MEMORY_KIB={memory_kib} and "
        f"IRONAUTH_ARGON2_PARALLELISM={parallelism} are below the OWASP floor: use at least t=2 with m=19456 (19 MiB)"
    )


def refuse_missing_laboratory(*, wanted: bool) -> None:
    """Raise ``ImproperlyConfigured`` when the laboratory's endpoints are wanted and it is not installed."""
    if wanted and not _is_installed(LABORATORY_URLS):
        raise ImproperlyConfigured(
            "IRONAUTH_PERF_ENDPOINTS=1 needs the folder perf/, which this installation does not have: "
            "remove the variable, or serve from a checkout of the repository"
        )


def sqlite_options(timeout_s: float) -> dict[str, object]:
    """Return Django's ``OPTIONS`` for SQLite.

    ``BEGIN IMMEDIATE`` takes the write lock first, so that a unit of work which reads and then writes waits for its
    turn instead of failing half-way. WAL lets readers go on meanwhile. ``synchronous=FULL``, not the usual
    NORMAL: in WAL mode NORMAL may lose the last commits with the power, and here a lost commit is a session that
    lives again after its sign-out.

    Args:
        timeout_s: Seconds a connection waits for another one's lock.
    """
    pragmas = (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"journal_size_limit={SQLITE_WAL_BYTES}",
        f"cache_size=-{SQLITE_CACHE_KIB}",
        f"mmap_size={SQLITE_MMAP_BYTES}",
        "temp_store=MEMORY",
    )
    return {
        "transaction_mode": "IMMEDIATE",
        "timeout": timeout_s,
        "init_command": ";".join(f"PRAGMA {pragma}" for pragma in pragmas),
    }


def postgres_options(given: Mapping[str, object]) -> dict[str, object]:
    """Return Django's ``OPTIONS`` for Postgres; those ``given`` in the URL win.

    libpq's own floor for ``connect_timeout`` is 2 s; the pool's own time limit is what a request sees. A server that
    vanished without a word is noticed by the kernel after 5 s, so that its pool threads come back.
    """
    return {
        "connect_timeout": 2,
        "tcp_user_timeout": 5_000,  # milliseconds
        "keepalives_idle": 5,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        **given,
    }


def _is_installed(module: str) -> bool:
    """Return whether ``module`` could be imported; its packages are, it is not."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its package
        return False


def _key(text: str) -> bytes | None:
    """Return the 32 bytes that ``text`` (base64url, padded or not) stands for; None when it is anything else."""
    try:
        key = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None


#: 32 random bytes have 43 characters in base64url; the alphabet is that of bearer tokens, RFC 6750 §2.1.
METRICS_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{43,255}=*")


def metrics_token(value: str, *, on: bool) -> str:
    """Return the token, empty where metrics are off and none is given.

    Args:
        value: IRONAUTH_METRICS_TOKEN.
        on: Whether IRONAUTH_METRICS is on.

    Raises:
        ImproperlyConfigured: Metrics are on without a token, or it is short or cannot be sent.
    """
    if not value and not on:
        return value
    if METRICS_TOKEN.fullmatch(value) is None:
        raise ImproperlyConfigured(
            "IRONAUTH_METRICS_TOKEN must have 43 to 255 letters, digits or -._~+/ (without it nobody may read what "
            "IRONAUTH_METRICS counts): python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        )
    return value
