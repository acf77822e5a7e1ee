"""What the rest of the product has to know of a kind of second factor; each kind has it in its ``factor`` module."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from django.db.models import Model, QuerySet

from accounts.audit import recording as audit
from accounts.audit.recording import Outcome
from accounts.mfa.errors import InvalidMfaCode
from accounts.mfa.outputs import MfaOut
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users.proofs import Evidence, Proof, ProofRequest
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto.resealing import Resealed
from ironauth.infrastructure.db.compiled import Param
from ironauth.infrastructure.telemetry.logs import get_logger


class SecondFactor(ABC):
    """A kind of second factor; ``mfa.factors`` lists them all.

    Attributes:
        name: What the API calls it.
        stands_alone: False where it only stands in for another factor.
        model: Its rows, with a field ``user``. They go with a reset, and with the first proof of an address.
        removed_because: Why they go when an address is proved for the first time.
        section: What the export of a person's data calls them.
        words: What a page calls it that lists ways to sign in; "" for one that never stands alone.
        noun: What a link that offers it calls it, after "use".
        template: The part of a page of the admin that asks for it.
        typed: Whether people type it: then the page says in its form what is wrong.
        unjudged: Why what was shown could not be judged, for a reason of this kind's own; None where there is none.
    """

    name: ClassVar[str]
    stands_alone: ClassVar[bool] = True
    model: ClassVar[type[Model]]
    removed_because: ClassVar[str]
    section: ClassVar[str]
    words: ClassVar[str] = ""
    noun: ClassVar[str]
    template: ClassVar[str]
    typed: ClassVar[bool] = True
    unjudged: ClassVar[type[Unavailable] | None] = None

    def rows(self) -> QuerySet[Any]:
        """Return the rows that count as a factor."""
        return QuerySet(self.model)

    @abstractmethod
    def since(self, user_id: uuid.UUID) -> Iterable[datetime]:
        """Return since when a person has each of this kind that signs in by itself, the oldest first."""

    @abstractmethod
    def export(self, person: Param) -> QuerySet[Any, Any]:
        """Return what a person is handed about their own, without secrets."""

    @abstractmethod
    def in_words(self, has: MfaOut) -> str:
        """Return what the admin says of what a person has; "" for nothing."""

    @abstractmethod
    def accepts(self, shown: Evidence) -> bool:
        """Tell whether what was shown is to be judged as this kind."""

    @abstractmethod
    async def judge(self, shown: Evidence, asked: ProofRequest) -> Proof:
        """Return what proves that the person has it. Raises ``SecondFactorRefused``, ``Throttled``, ``Unavailable``."""

    def reseal(self, *, batch: int) -> Resealed:
        """Seal every secret of this kind under the newest master key, ``batch`` rows in a transaction."""
        return Resealed(0, 0)

    async def challenge(self, asked: ProofRequest) -> str:
        """Return what the page's script needs to ask for it, another one for each page; "" for what is just typed."""
        return ""


async def refused(asked: ProofRequest, reason: str = InvalidMfaCode.code, **details: str) -> None:
    """Leave in log and trail that a second factor was wrong; the answer does not wait for it.

    Args:
        asked: For which act, by which account.
        reason: A code for log and trail; the answer does not tell it.
        **details: Further fields of the event.
    """
    get_logger().info("second_factor_refused", user_id=str(asked.user_id), reason=reason)
    await audit.record_later(
        asked.event,
        outcome=Outcome.FAILURE,
        actor_id=asked.actor_id,
        user_id=asked.user_id,
        session_id=asked.session_id,
        details={"reason": reason, **details},
    )


def warn_owner(user_id: uuid.UUID) -> None:
    """Tell the owner that somebody gets as far as the second factor; a unit of work, two queries."""
    user = user_queries.find(user_id)
    if user is not None:
        outbox.enqueue(Kind.SECOND_FACTOR_REFUSED, recipient=user.email, user_id=user_id)


def without_spaces(code: str) -> str:
    """Return a code as typed without the spaces that apps show inside it."""
    return code.strip().replace(" ", "")
