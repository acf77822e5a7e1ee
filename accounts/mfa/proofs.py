"""What proves a second factor: what is shown, what was right, and what is left of what was wrong.

A factor is judged first, which may take a hash, and used up in the transaction of what it is good for: a sign-in, a
step-up. How each kind is judged and counted is said in its ``factor`` module.
"""

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.mfa.errors import InvalidMfaCode, SecondFactorRefused
from ironauth.infrastructure.telemetry.logs import get_logger


class Shown(NamedTuple):
    """What was sent to prove a second factor: a code, or an authenticator's answer to a challenge."""

    code: str | None = None
    challenge_token: str | None = None
    credential: Mapping[str, Any] | None = None


class Asked(NamedTuple):
    """Who is to prove a second factor, and for what.

    ``event``: what is left as failed in the trail by a wrong one. ``address``: the client's, "" when unknown.
    ``session_id``: the session it is asked for in, if there is one yet.
    """

    user_id: uuid.UUID
    event: Event
    address: str = ""
    session_id: uuid.UUID | None = None


class Proof(Protocol):
    """A second factor that was right when it was judged."""

    @property
    def user_id(self) -> uuid.UUID:
        """Whose it is."""

    @property
    def amr(self) -> str:
        """How it was proved: values of RFC 8176, or ours where it has none."""

    @property
    def refusal(self) -> type[SecondFactorRefused]:
        """What to raise when it does not count."""

    def use(self) -> bool:
        """Make it count, in the caller's transaction; False when another request was faster."""


async def refused(
    *, user_id: uuid.UUID, event: Event, session_id: uuid.UUID | None = None, reason: str = InvalidMfaCode.code
) -> None:
    """Leave in log and trail that a second factor was wrong; the answer does not wait for it."""
    get_logger().info("second_factor_refused", user_id=str(user_id), reason=reason)
    await audit.record_later(
        event,
        outcome=Outcome.FAILURE,
        actor_id=user_id if session_id else None,
        user_id=user_id,
        session_id=session_id,
        details={"reason": reason},
    )


def without_spaces(code: str) -> str:
    """Return a code as typed without the spaces that apps show inside it."""
    return code.strip().replace(" ", "")
