"""The requests about one person, one after the other, until one deadline; cut off from any other thread.

A password is in them: they go to public addresses, or networks that the operator has named, and follow no redirect.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from django.conf import settings

from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.outbound.request import Exchange, ExchangeFailedError

LONGEST: Final = 64 * 1024  # bytes of an answer; what is told of one person takes 2 KiB
#: What a system says to a caller that it serves. Anything else, a redirect too, is no answer.
_WANTED: Final = frozenset({200, 400, 401, 403, 404, 422, 429})


class UnusableAnswerError(Exception):
    """The system works, and has not said whether the password is right: the caller is refused, or asks too often."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")


class Answer(NamedTuple):
    """What a request was answered with."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Return the JSON of the body. Raises ``ValueError``."""
        return strict_json.loads(self.body)


class Conversation:
    """With the old system, about one person; ``send`` is for a pool's thread, ``cut`` for its caller."""

    def __init__(self, until: float) -> None:
        """Send nothing yet.

        Args:
            until: When it is over, seconds of ``time.monotonic``.
        """
        self._until = until
        self._lock = threading.Lock()
        self._exchange: Exchange | None = None
        self._over = False

    def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Return the answer to one request; it blocks.

        Args:
            method: Of HTTP.
            url: Where it goes: below the address of the settings.
            headers: Of the request.
            body: Of the request.

        Raises:
            OSError: There is no connection, or the time is over.
            HTTPException: The answer is not HTTP.
            ExchangeFailedError: It is of another status, too long or broken off, or the conversation is over.
        """
        left_s = self._until - time.monotonic()
        exchange = Exchange(
            url, limit_s=max(left_s, 0.001), longest=LONGEST, networks=settings.IRONAUTH_LAZY_MIGRATION_NETWORKS
        )
        with self._lock:
            if self._over or left_s <= 0:
                raise ExchangeFailedError("no time left")
            self._exchange = exchange
        told = {"Accept": "application/json", "User-Agent": "ironauth", **headers}
        found = exchange.run(method, headers=told, wanted=_WANTED, body=body)
        return Answer(exchange.status or 0, found)

    @property
    def has_begun(self) -> bool:
        """Whether anything was sent."""
        return self._exchange is not None

    def cut(self) -> None:
        """End the conversation: a system that trickles must not keep the thread."""
        with self._lock:
            self._over, exchange = True, self._exchange
        if exchange is not None:
            exchange.cut()
