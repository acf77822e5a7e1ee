"""Passwords known from breaches, in a file beside the server; ``breached_service`` is asked as well, if there is one.

``manage.py breached_passwords install`` makes the file (``breached_file``); without one nothing is known. It holds the
first 8 bytes of each password's SHA-1, sorted. With a billion of them, one new password in 2 * 10^10 is refused by
chance.

It is read by binary search with ``pread``, not by ``mmap``: a page that has to come from the disk first would hold the
interpreter's lock, and with it every thread, until it is there. A list that cannot be read refuses nobody: the fault is
logged, and every password passes as unknown.
"""

import asyncio
import hashlib
import os
import threading
import time
import unicodedata
import weakref
from bisect import bisect_left
from pathlib import Path
from typing import Final, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_noop as _

from accounts.passwords import breached_service
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.telemetry.logs import get_logger

#: Seconds for which it is known which list is installed. Each look at the file gives the interpreter's lock up, and
#: while the event loop computes, the hash thread has it again up to 5 ms later: 5.6 % of the samples of a profile.
LOOK_S = 1.0
MAGIC: Final = b"ironauth sha1/8\n"  # 16 bytes, so that no record crosses a page
RECORD_BYTES: Final = 8
CODE: Final = "password_breached"
MESSAGE: Final = _(
    "The password is in a list of passwords stolen from other sites, which attackers try first: choose another one."
)


class BreachedList:
    """An open list; usable by many threads at once. Raises ``OSError``, ``ValueError`` for a file of another form."""

    def __init__(self, where: Path) -> None:
        self._file = os.open(where, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)  # closes with the last reference, so never while somebody reads
        size = os.fstat(self._file).st_size - len(MAGIC)
        if size < 0 or size % RECORD_BYTES or os.pread(self._file, len(MAGIC), 0) != MAGIC:
            raise ValueError("not a list of breached passwords")
        self.count = size // RECORD_BYTES

    def has(self, prefix: bytes) -> bool:
        """Tell whether the list has this prefix; 30 reads of 8 bytes in a billion. Raises ``OSError``."""
        at = bisect_left(range(self.count), prefix, key=self._record)
        return at < self.count and self._record(at) == prefix

    def _record(self, number: int) -> bytes:
        return os.pread(self._file, RECORD_BYTES, len(MAGIC) + number * RECORD_BYTES)


class _Opened(NamedTuple):
    """What was found at a path: a list, or None for a file that is none; ``identity``: of the file it was found in."""

    identity: tuple[object, ...]
    found: BreachedList | None


class _Looked(NamedTuple):
    """What a look has found, when (monotonic seconds), and by which settings."""

    at: float
    settings: tuple[str, object]
    found: BreachedList | None


_opened: _Opened | None = None
_looked: _Looked | None = None
_lock = threading.Lock()


def path() -> Path:
    """Return where the list is, or would be."""
    return Path(settings.IRONAUTH_BREACHED_PASSWORDS or settings.BASE_DIR / "var" / "breached-passwords")


def installed() -> BreachedList | None:
    """Return the list, opened anew ``LOOK_S`` after another one was installed at the latest; None without one."""
    global _looked  # noqa: PLW0603 - what is known of the file is the process's
    now, named, looked = time.monotonic(), (settings.IRONAUTH_BREACHED_PASSWORDS, settings.BASE_DIR), _looked
    if looked is None or looked.settings != named or now - looked.at >= LOOK_S:
        looked = _looked = _Looked(now, named, _found())
    return looked.found


def _found() -> BreachedList | None:
    """Return the list that is there now: an ``os.stat``, 10 µs, which an event loop can afford."""
    global _opened  # noqa: PLW0603 - one open list per process is the point
    where = path()
    try:
        stat = where.stat()
        identity = (where, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if _opened is None or _opened.identity != identity:
            with _lock:
                _opened = _Opened(identity, BreachedList(where))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _unreadable(where, error)
        if isinstance(error, ValueError):  # it tells that once, not at every sign-in
            _opened = _Opened(identity, None)
        return None
    return _opened.found


def sha1_of(password: str) -> bytes:
    """Return the password in NFC, as it is hashed here, by SHA-1, as breaches are published; 20 bytes."""
    text = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).digest()


def prefix_of(password: str) -> bytes:
    """Return what a list knows of a password."""
    return sha1_of(password)[:RECORD_BYTES]


def is_breached(password: str) -> bool:
    """Tell whether the password is in the list; False without a list.

    Reads the disk: 50 µs among 50 million when the system has the file in memory. For pool threads and the admin's,
    not for an event loop.
    """
    found = installed()
    try:
        return found is not None and found.has(prefix_of(password))
    except OSError as error:
        _unreadable(path(), error)
        return False


async def require_unbreached(password: str, *, field: str) -> None:
    """Raise ``ValidationFailed`` (``field``) when the password is in the list, or else the service knows it.

    To be called after whatever limits how often a stranger may ask, and outside of every transaction.

    Args:
        password: What was chosen, in clear.
        field: The input field that the error is told of.
    """
    listed = installed() is not None and await asyncio.to_thread(is_breached, password)
    if listed or await breached_service.knows(sha1_of(password)):
        raise ValidationFailed(errors=[FieldError(field, CODE, MESSAGE)])


async def open_at_start() -> None:
    """Log how many breached passwords are known.

    Raises:
        ImproperlyConfigured: A list is configured, and there is none.
    """
    found = installed()
    if found is not None:
        get_logger().info("breached_passwords_ready", passwords=found.count)
    elif settings.IRONAUTH_BREACHED_PASSWORDS:
        raise ImproperlyConfigured(
            "IRONAUTH_BREACHED_PASSWORDS names no list of breached passwords: make it with "
            "`manage.py breached_passwords install FILE`, or remove the variable"
        )


def _unreadable(where: Path, error: Exception) -> None:
    get_logger().error("breached_passwords_unreadable", path=str(where), error=f"{type(error).__name__}: {error}")
