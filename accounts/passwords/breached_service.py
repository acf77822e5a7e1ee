"""Asking a service whether a password is known from breaches; it learns five characters of a hash.

Off unless ``IRONAUTH_BREACHED_PASSWORDS_URL`` names one with the range API of "Have I Been Pwned": ``GET <url>/<first 5
hexadecimal characters of the SHA-1>`` answers a line ``SUFFIX:COUNT`` for each password whose hash begins so. It adds
other lines, with a count of 0, so that the length of the answer tells an eavesdropper nothing.

The service is advice. Whatever goes wrong counts as "not known" and is logged without any part of the password. After a
failure it is not asked for a second, so that a dead service slows down one sign-up a second. It is asked on threads of
its own, never on the event loop or a hash thread, and never while a transaction is open.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Final

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection as database_connection

from ironauth.infrastructure.outbound.request import Exchange, ExchangeFailedError
from ironauth.infrastructure.threads.circuit_breaker import Breaker
from ironauth.infrastructure.threads.executor import BoundedExecutor

PREFIX_CHARACTERS: Final = 5  # all that ever leaves: of a billion known passwords a thousand have the same
LONGEST_ANSWER: Final = 256 * 1024  # bytes; a thousand lines have 40 KiB
THREADS: Final = 4  # questions at a time of one process: each mostly waits for the service
#: "Have I Been Pwned" answers 403 to a client that does not name itself.
HEADERS: Final = {"User-Agent": "ironauth", "Add-Padding": "true"}
_LINE: Final = re.compile(rb"([0-9A-Fa-f]{35}):([0-9]{1,15})")

_executor: Final = BoundedExecutor(name="breaches", threads=THREADS)
_breaker = Breaker("breached_passwords_service")
_asked_beforehand: ContextVar[tuple[bytes, bool] | None] = ContextVar("asked_beforehand", default=None)


class _Question:
    """One question: asked on a pool thread, cut off from any other."""

    def __init__(self, digest: bytes) -> None:
        text = digest.hex().upper()
        self._suffix = text[PREFIX_CHARACTERS:].encode()
        self._exchange = Exchange(
            f"{settings.IRONAUTH_BREACHED_PASSWORDS_URL}/{text[:PREFIX_CHARACTERS]}",
            limit_s=settings.IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S,
            longest=LONGEST_ANSWER,
        )

    def ask(self) -> bool:
        """Return whether the service knows the password. Raises ``OSError``, ``HTTPException``, `ExchangeFailedError`.

        No redirect is followed, and no proxy of the environment is used.
        """
        return _has(self._exchange.run("GET", headers=HEADERS, wanted={HTTPStatus.OK}), self._suffix)

    def cut(self) -> None:
        """End the conversation, if there is one: a service that trickles must not keep the thread."""
        self._exchange.cut()


async def knows(digest: bytes) -> bool:
    """Tell whether the service knows the password with this SHA-1; False without a service, or an answer in time."""
    if not _may_ask():
        return False
    question = _Question(digest)
    try:
        async with asyncio.timeout(settings.IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S):
            known = await _executor.offload(question.ask)
    except Exception as error:  # noqa: BLE001 - whatever it was, it is logged, and nobody is refused for it
        return _failed(error)
    finally:
        question.cut()
    _breaker.succeeded()
    return known


def knows_in_thread(digest: bytes) -> bool:
    """Tell the same in a thread without event loop; within a transaction only what was ``asked_beforehand``."""
    if database_connection.in_atomic_block:
        return _asked_beforehand.get() == (digest, True)
    return async_to_sync(knows)(digest)


@contextmanager
def asked_beforehand(digest: bytes) -> Iterator[None]:
    """Ask now, blocking, and have ``knows_in_thread`` repeat the answer within the transactions of this block."""
    token = _asked_beforehand.set((digest, knows_in_thread(digest)))
    try:
        yield
    finally:
        _asked_beforehand.reset(token)


async def close() -> None:
    """Let the threads end; questions still under way are not waited for."""
    await asyncio.to_thread(_executor.shutdown, wait=False)


def _may_ask() -> bool:
    return bool(settings.IRONAUTH_BREACHED_PASSWORDS_URL) and _breaker.allows()


def _failed(error: Exception) -> bool:
    """Have nobody ask for a moment; return that the password is not known."""
    # Errors of HTTP repeat what the service said, which may repeat what it was asked.
    told = error if isinstance(error, OSError | ExchangeFailedError) else ExchangeFailedError(type(error).__name__)
    _breaker.failed(told)
    return False


def _has(body: bytes, suffix: bytes) -> bool:
    """Tell whether a line has this suffix, and not as padding. Raises `ExchangeFailedError` for a line of no such form.

    A body without a line is one of a service with few passwords.
    """
    known = False
    for line in body.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise ExchangeFailedError("a line that is not SUFFIX:COUNT")
        known = known or (found[1].upper() == suffix and int(found[2]) > 0)
    return known
