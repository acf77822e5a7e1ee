"""Tell clients by logout tokens whose session has ended (OpenID Connect Back-Channel Logout 1.0); every server does it.

A notice is sent until its client confirms it, at growing intervals, for a day. It arrives twice only if a worker dies
after sending it, or an answer gets lost.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django.conf import settings

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.outbox import QueueDelivery
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.outbound.public_addresses import NotPublicError
from ironauth.infrastructure.outbound.request import Exchange, ExchangeFailedError
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access import signed_tokens
from tokens.clients import registry as clients
from tokens.clients import subjects
from tokens.clients.fetched import addresses
from tokens.clients.registry import Client
from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.oauth.logout import units as logout_notices
from tokens.oauth.logout.units import Claimed

LIMIT_S: Final = 5.0  # seconds from the connection to the end of the answer
#: Seconds in which a client that let one notice wait in vain gets no other: less than until the first is tried again.
REST_S: Final = 4.0
#: Notices to unverified clients of strangers that are on their way at once: fewer than there are threads, so that
#: servers which hang keep no other application waiting.
MOST_STRANGERS: Final = 2
STOP_S: Final = 3.0  # seconds a stopping process waits for notices on their way; the server has 10 in all
LONGEST_ANSWER: Final = 16 * 1024  # bytes; nobody reads it
#: What confirms: the specification says 200; some frameworks send 204 for an empty answer (§2.8).
CONFIRMED: Final = frozenset({HTTPStatus.OK, HTTPStatus.NO_CONTENT})
HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "ironauth"}
TYP: Final = "logout+jwt"
TOKEN_LIFE_S: Final = 120  # seconds; two minutes at most, says the specification: it is delivered as soon as it is made
JTI_BYTES: Final = 16  # 128 random bits
EVENTS: Final[Mapping[str, Mapping[str, str]]] = {"http://schemas.openid.net/event/backchannel-logout": {}}

log = get_logger()


class LogoutClaims(msgspec.Struct, frozen=True):
    """The claims of one logout token; times in unix seconds. Never a nonce, so that it passes for no ID token."""

    iss: str
    sub: str
    aud: str
    iat: int
    exp: int
    jti: str
    sid: str
    events: Mapping[str, Mapping[str, str]]


async def mint(*, client: Client, user_id: UUID, session_id: UUID) -> str:
    """Return a logout token that says that this person's SSO session has ended.

    Args:
        client: The client that is told: it is the audience.
        user_id: The person; told as this client knows them.
        session_id: The SSO session; told as this client knows it.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
    """
    key = await key_store().signing(Family(client.id_token_alg))
    now = int(clock.unix())
    claims = LogoutClaims(
        iss=settings.IRONAUTH_ISSUER,
        sub=subjects.subject_of(client, user_id),
        aud=client.public_id,
        iat=now,
        exp=now + TOKEN_LIFE_S,
        jti=secrets.token_urlsafe(JTI_BYTES),
        sid=subjects.sid_of(client, session_id),
        events=EVENTS,
    )
    return signed_tokens.sign(claims, key, typ=TYP)


class LogoutDelivery(QueueDelivery[Claimed]):
    """Delivers the queue of notices; one per process, on one event loop."""

    name = "logout"
    failed = "logout_delivery_failed"
    stop_s = STOP_S
    due = staticmethod(logout_notices.due)
    claim = staticmethod(logout_notices.claim)

    def __init__(self) -> None:
        super().__init__()
        #: Clients that have just let a notice wait, and until when (monotonic) they get no other. Otherwise a client
        #: with many notices would take all threads for hours, and no other client would be told.
        self._resting: dict[str, float] = {}
        self._strangers = 0
        #: Threads that still work for a stranger after its time: a name is looked up to its end, and nobody waits.
        self._stuck = 0
        self._lock = threading.Lock()

    async def deliver(self, notice: Claimed) -> None:
        """Tell one client, and say in the queue how it went; a client that is gone or disabled is told nothing."""
        client = await clients.find(str(notice.client_id))
        if client is not None and client.backchannel_logout_uri:
            try:
                if time.monotonic() < self._resting.get(client.client_id, 0.0):
                    raise ExchangeFailedError("let another one wait")
                if client.unverified and self._strangers + self._stuck >= MOST_STRANGERS:
                    await database().write(logout_notices.put_back, notice)  # it was not tried: that is no failure
                    return
                self._strangers += client.unverified
                try:
                    await self._send(client, notice)
                finally:
                    self._strangers -= client.unverified
            except (OSError, HTTPException, ExchangeFailedError, Unavailable) as error:
                if isinstance(error, TimeoutError):
                    self._resting[client.client_id] = time.monotonic() + REST_S
                await self._note_failure(notice, error)
                return
            log.info("logout_notice_delivered", client_id=client.client_id, attempts=notice.attempts)
        await database().write(logout_notices.done, notice)

    async def _send(self, client: Client, notice: Claimed) -> None:
        """Post a logout token (§2.5). Raises whatever went wrong."""
        token = await mint(client=client, user_id=notice.user_id, session_id=notice.session_id)
        exchange = Exchange(
            client.backchannel_logout_uri,
            limit_s=LIMIT_S,
            longest=LONGEST_ANSWER,
            networks=addresses.networks_of_logout(by_staff=client.by_staff),
        )
        body = urlencode({"logout_token": token}).encode()
        job = self._executor.submit(exchange.run, "POST", headers=HEADERS, wanted=CONFIRMED, body=body)
        try:
            async with asyncio.timeout(LIMIT_S):
                await asyncio.wrap_future(job)
        finally:
            exchange.cut()
            if not job.cancel() and client.unverified:
                self._count_stuck(1)  # before the callback, which a job that is done calls at once
                job.add_done_callback(lambda _: self._count_stuck(-1))

    def _count_stuck(self, change: int) -> None:
        with self._lock:
            self._stuck += change

    async def _note_failure(self, notice: Claimed, error: Exception) -> None:
        """Have the notice tried again, unless its day is over. What clients answer is logged nowhere."""
        given_up = await database().write(logout_notices.failed, notice)
        event, name = (log.error, "logout_notice_given_up") if given_up else (log.warning, "logout_notice_failed")
        reason = str(error) if isinstance(error, ExchangeFailedError | NotPublicError) else type(error).__name__
        event(name, client_id=str(notice.client_id), attempts=notice.attempts, cause=reason)


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
