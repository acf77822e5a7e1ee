"""Step-up: acts that a stolen session must not do need a proof, at most ten minutes old, of who is there (RFC 9470)."""

from typing import Final, Protocol

from accounts.errors import StepUpRequired
from ironauth.infrastructure.core import clock

RECENT_S: Final = 600  # seconds; ten minutes: the time to finish what one signed in for


class Proven(Protocol):
    """Somebody who has proved who they are."""

    @property
    def authenticated_at(self) -> int:
        """When; unix seconds."""


def require_recent(who: Proven) -> None:
    """Raise ``StepUpRequired`` (401) unless ``who`` proved who they are at most 600 seconds ago."""
    require_recent_at(who.authenticated_at)


def require_recent_at(authenticated_at: int) -> None:
    """Raise ``StepUpRequired`` (401) unless this unix second is at most 600 seconds ago."""
    if int(clock.unix()) - authenticated_at > RECENT_S:
        raise StepUpRequired(max_age_s=RECENT_S)
