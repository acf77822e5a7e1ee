"""What a sign-in asks about somebody without an account here: the old system, while its people move here."""

import uuid
from collections.abc import Awaitable
from typing import Final, Protocol

from django.conf import settings

from accounts.audit.events import Reason
from ironauth.infrastructure.core import clock

#: What hashing, storing and a late timer may take beside the old system's time, seconds: no refusal that waited for it
#: misses the step of those that did not.
RESERVE_S: Final = 0.5


class Find(Protocol):
    """Asks about one person; see ``accounts.lazy_migration.services.find``."""

    def __call__(self, *, email: str, password: str, began_ns: int) -> Awaitable[uuid.UUID | Reason]:
        """Return the id of the account that they have from now on, or why they have none."""


_asked: Find | None = None


def register(find: Find) -> None:
    """Let ``find`` be asked from now on."""
    global _asked  # noqa: PLW0603 - one for the process, set when the application is ready
    _asked = find


def is_before_its_end() -> bool:
    """Tell whether the last day of lazy migration is set and not over, whether or not somebody is asked now."""
    until = settings.IRONAUTH_LAZY_MIGRATION_UNTIL
    return until is not None and clock.now() < until


def is_asked() -> bool:
    """Tell whether an old system is asked about people without an account here."""
    return settings.IRONAUTH_LAZY_MIGRATION != "off" and is_before_its_end()


def step_s() -> float:
    """Return after a whole number of which seconds every refused sign-in leaves while an old system is asked."""
    return settings.IRONAUTH_LAZY_MIGRATION_TIMEOUT_S + RESERVE_S


async def find(*, email: str, password: str, began_ns: int) -> uuid.UUID | Reason:
    """Return the id of the account of somebody who has just moved here, or why there is none.

    Args:
        email: The address that was typed; no account here has it.
        password: What was typed.
        began_ns: When the sign-in began, nanoseconds of ``time.monotonic_ns``.

    Raises:
        Overloaded: (503) the password is right there, and the hash pool is full.
        Unavailable: (503) the database has no time.
    """
    if _asked is None:
        return Reason.NO_ACCOUNT
    return await _asked(email=email, password=password, began_ns=began_ns)
