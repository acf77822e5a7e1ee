"""Delivering back-channel logouts: claimed on database threads, sent on threads of its own, never on the event loop.

Every process that serves does it, looking every two seconds for what is due. A notice is delivered until its client
confirms it, at growing intervals, for a day; twice only if a worker dies after sending it, or an answer gets lost.
"""

import asyncio
import secrets
import time
from http import HTTPStatus
from http.client import HTTPException
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from ironauth.infrastructure.database import database
from ironauth.infrastructure.errors import Unavailable
from ironauth.infrastructure.logs import get_logger
from ironauth.infrastructure.outbound import Exchange, ExchangeFailedError
from ironauth.infrastructure.pools import Pool
from tokens.oauth import clients, logout_notices, logout_tokens
from tokens.oauth.clients import Client
from tokens.oauth.logout_notices import MAX_DUE, Claimed

POLL_S: Final = 2.0  # seconds between two looks at the queue, a quarter more or less
THREADS: Final = 4  # clients told at once by one process: each thread mostly waits for an answer
LIMIT_S: Final = 5.0  # seconds from the connection to the end of the answer
#: Seconds in which a client that let one notice wait in vain gets no other: less than until the first is tried again.
REST_S: Final = 4.0
STOP_S: Final = 3.0  # seconds a stopping process waits for notices on their way; the server has 10 in all
LONGEST_ANSWER: Final = 16 * 1024  # bytes; nobody reads it
#: What confirms: the specification says 200; some frameworks send 204 for an empty answer (§2.8).
CONFIRMED: Final = frozenset({HTTPStatus.OK, HTTPStatus.NO_CONTENT})
HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "ironauth"}

log = get_logger()


class _HangsError(ExchangeFailedError):
    """A client let a notice wait in vain."""


class LogoutDelivery:
    """Delivers while it runs; one per process, on one event loop."""

    def __init__(self) -> None:
        self._pool = Pool(name="logout", threads=THREADS)
        self._polling: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        #: Clients that have just let a notice wait, and until when (monotonic): with many notices one would take all
        #: threads for hours, and keep every other client from being told.
        self._resting: dict[str, float] = {}

    async def start(self) -> None:
        """Look at the queue until ``stop``; a database or client that cannot be reached is tried again."""
        await self.stop()
        self._stopping.clear()
        self._polling = asyncio.get_running_loop().create_task(self._poll_forever(), name="logout-delivery")

    async def stop(self) -> None:
        """Take no more notices, and wait for those on their way, at most ``STOP_S`` seconds."""
        polling, self._polling = self._polling, None
        self._stopping.set()
        if polling is not None:
            await asyncio.wait([polling], timeout=STOP_S)
            polling.cancel()
        await asyncio.to_thread(self._pool.close, wait=False)

    async def deliver_due(self) -> int:
        """Deliver every notice that is due and free; return how many were taken. Raises ``Unavailable``."""
        taken = 0
        more = True
        while more and not self._stopping.is_set():
            waiting = await database().read(logout_notices.due)
            more = len(waiting) == MAX_DUE
            secrets.SystemRandom().shuffle(waiting)  # several workers begin at different ends
            # An error in one must not leave the others without anybody who waits for them.
            results = await asyncio.gather(
                *(self._deliver_each(waiting) for _ in range(THREADS)), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
                taken += result
        return taken

    async def _poll_forever(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.deliver_due()
            except Unavailable:
                pass  # the pool has logged it
            except Exception:
                log.exception("logout_delivery_failed")
            rest = POLL_S * secrets.SystemRandom().uniform(0.75, 1.25)
            try:
                await asyncio.wait_for(self._stopping.wait(), rest)
            except TimeoutError:
                continue

    async def _deliver_each(self, waiting: list[UUID]) -> int:
        """Claim and deliver from the end of ``waiting`` until it is empty; return how many were claimed."""
        taken = 0
        while waiting and not self._stopping.is_set():
            notice = await database().write(logout_notices.claim, waiting.pop())
            if notice is not None:
                taken += 1
                await self._deliver(notice)
        return taken

    async def _deliver(self, notice: Claimed) -> None:
        """Tell one client, and say in the queue how it went; a client that is gone or disabled is told nothing."""
        client = await clients.find(str(notice.client_id))
        if client is not None and client.backchannel_logout_uri:
            try:
                if time.monotonic() < self._resting.get(client.client_id, 0.0):
                    raise ExchangeFailedError("let another one wait")
                await self._send(client, notice)
            except (OSError, HTTPException, ExchangeFailedError, Unavailable) as error:
                if isinstance(error, TimeoutError | _HangsError):
                    self._resting[client.client_id] = time.monotonic() + REST_S
                await self._note_failure(notice, error)
                return
            log.info("logout_notice_delivered", client_id=client.client_id, attempts=notice.attempts)
        await database().write(logout_notices.done, notice)

    async def _send(self, client: Client, notice: Claimed) -> None:
        """Post a logout token (§2.5). Raises whatever went wrong."""
        token = await logout_tokens.mint(client=client, user_id=notice.user_id, session_id=notice.session_id)
        exchange = Exchange(client.backchannel_logout_uri, limit_s=LIMIT_S, longest=LONGEST_ANSWER)
        body = urlencode({"logout_token": token}).encode()
        try:
            await self._pool.run(
                lambda: exchange.run("POST", headers=HEADERS, wanted=CONFIRMED, body=body),
                limit_s=LIMIT_S,
                late=_late,
                leave_running=True,
            )
        finally:
            exchange.cut()

    async def _note_failure(self, notice: Claimed, error: Exception) -> None:
        """Have the notice tried again, unless its day is over. What clients answer is logged nowhere."""
        given_up = await database().write(logout_notices.failed, notice)
        event, name = (log.error, "logout_notice_given_up") if given_up else (log.warning, "logout_notice_failed")
        reason = str(error) if isinstance(error, ExchangeFailedError) else type(error).__name__
        event(name, client_id=str(notice.client_id), attempts=notice.attempts, cause=reason)


def _late() -> Exception:
    return _HangsError("no answer in time")


_shared: LogoutDelivery | None = None


async def start() -> None:
    """Deliver from this process."""
    global _shared  # noqa: PLW0603 - one per process is the point
    _shared = LogoutDelivery()
    await _shared.start()


async def stop() -> None:
    """End what ``start`` started."""
    global _shared
    delivery, _shared = _shared, None
    if delivery is not None:
        await delivery.stop()
