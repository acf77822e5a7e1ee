"""Asking the old system about one person: on a small pool of its own, within one deadline, behind a breaker.

A system that is slow or down keeps this pool's threads busy, and nothing else. After a failure nobody asks for a
second, then one caller tries again.
"""

import asyncio
import time
from http.client import HTTPException
from typing import Final

from django.conf import settings

from accounts.lazy_migration.conversation import Conversation, UnusableAnswerError
from accounts.lazy_migration.kinds.kind import Kind
from accounts.lazy_migration.kinds.registry import KINDS
from accounts.transfer.records import Person, Refused
from accounts.transfer.services import judged
from ironauth.infrastructure.outbound.request import ExchangeFailedError
from ironauth.infrastructure.threads.circuit_breaker import Breaker
from ironauth.infrastructure.threads.executor import BoundedExecutor

THREADS: Final = 8  # people asked for at once by one process; 40 a second where an answer takes 0.2 s
MOST_WAITING: Final = 64  # people who wait for a thread; another one is not asked for
_executor: Final = BoundedExecutor(name="old_system", threads=THREADS)
_breaker = Breaker("old_system")


class NotAskedError(Exception):
    """The old system has not said whether the password is right."""


def kind() -> Kind:
    """Return the kind of the old system that the settings name."""
    return KINDS[settings.IRONAUTH_LAZY_MIGRATION]


async def ask(*, email: str, password: str, until: float) -> Person | None:
    """Return whose address and password these are there, as they would be stored here; None where they are not right.

    Args:
        email: The address, normalised.
        password: As it was typed.
        until: When the answer is not waited for any longer, seconds of ``time.monotonic``.

    Raises:
        NotAskedError: There is no answer that can be used, in time.
    """
    left_s = until - time.monotonic()
    if left_s <= 0 or _executor.queued >= MOST_WAITING or not _breaker.allows():
        raise NotAskedError
    talk = Conversation(until)
    try:
        async with asyncio.timeout(left_s):
            person = await _executor.offload(kind().ask, talk, email, password)
    except (OSError, HTTPException, ExchangeFailedError) as error:  # a TimeoutError is an OSError
        if not talk.has_begun:  # no thread was free in time: the system has not failed
            raise NotAskedError from error
        # Errors of HTTP repeat what the system said, which may repeat what it was asked.
        told = error if isinstance(error, ExchangeFailedError) else ExchangeFailedError(type(error).__name__)
        _breaker.failed(told)
        raise NotAskedError from error
    except (UnusableAnswerError, LookupError, TypeError, ValueError, AttributeError) as error:
        _breaker.unusable(error)
        raise NotAskedError from error
    finally:
        talk.cut()
    _breaker.succeeded()
    if person is None:
        return None
    found = judged(person, set())
    if isinstance(found, Refused):
        _breaker.unusable(ValueError(found.reason.value))
        raise NotAskedError
    return found


async def close() -> None:
    """Let the threads end; questions still under way are not waited for."""
    await asyncio.to_thread(_executor.shutdown, wait=False)
