"""What the rest of the product has to know of a kind of second factor. Each kind says it in its ``factor`` module."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from django.db.models import Model, QuerySet

from accounts.mfa.outputs import MfaOut
from accounts.mfa.proofs import Asked, Proof, Shown
from ironauth.infrastructure.db.compiled_sql import Param


class SecondFactor(ABC):
    """A kind of second factor; ``mfa.factors`` lists them all.

    Attributes:
        name: What the API calls it.
        stands_alone: False where it only stands in for another factor.
        model: Its rows, with a field ``user``. They go with a reset, and with the first proof of an address.
        removed_because: Why they go when an address is proved for the first time.
        section: What the export of a person's data calls them.
    """

    name: ClassVar[str]
    stands_alone: ClassVar[bool] = True
    model: ClassVar[type[Model]]
    removed_because: ClassVar[str]
    section: ClassVar[str]

    def rows(self) -> QuerySet[Any]:
        """Return the rows that count as a factor."""
        return self.model._default_manager.all()  # noqa: SLF001 - documented by Django

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
    def accepts(self, shown: Shown) -> bool:
        """Tell whether what was shown is to be judged as this kind."""

    @abstractmethod
    async def judge(self, shown: Shown, asked: Asked) -> Proof:
        """Return what proves that the person has it. Raises ``SecondFactorRefused``, ``Throttled``, ``Unavailable``."""

    @abstractmethod
    def judge_blocking(self, shown: Shown, asked: Asked) -> Proof | None:
        """Judge as `judge` does, blocking the calling thread; None for a wrong code, which the caller records."""
