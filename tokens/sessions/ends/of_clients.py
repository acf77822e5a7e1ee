"""Ending the sessions of a client that is disabled or deleted, however many there are; and working through batches.

Its tokens are refused as soon as workers hear that the client is no more: one tag stands for all of them, and none of
its sessions has to be told of. Their rows are ended so that nothing lives again when the client is enabled. A few end
at once; many by batches, each a transaction of its own that also notes how far it got. Every serving process does it,
and the purge, so that a process that dies takes nothing with it. Until the last batch the client cannot be enabled.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

from django.db import transaction

from ironauth.infrastructure.cache.invalidation import invalidate, invalidation_feed
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.core.lifecycle import on_shutdown, on_startup
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access.codec import AccessClaims
from tokens.clients import registry as clients
from tokens.clients.models import EndingClient, OAuthClient
from tokens.clients.queries import client_ends
from tokens.errors import InvalidToken
from tokens.sessions.ends import of_everybody
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session

#: Sessions that end with the act itself; with more, all others end by batches.
AT_ONCE: Final = 500
#: Sessions of one transaction: 10 ms in which others may wait for a row.
BATCH: Final = 500
REST_S: Final = 0.02  # seconds between batches, for others
POLL_S: Final = 30.0  # seconds until a process looks by itself
#: Wakes every process: there is something to end.
TAG: Final = "clients:ending"

log = get_logger()


def end_of_client(*, client: OAuthClient, at_once: bool = False, **_: object) -> int:
    """End the sessions of a client, and return how many; a receiver of ``clients.queries.client_ends``. 2 queries.

    No session is published: every token of the client has its tag. With more than ``AT_ONCE`` 3 queries more, and the
    others end by batches.

    Args:
        client: The client that is disabled, enabled or deleted.
        at_once: Whether all end now: a client that is enabled has none but those opened while it was disabled.
        **_: What else the signal brings.
    """
    there = Session.objects.filter(client_id=str(client.pk), revoked_at=None).order_by()
    if at_once:
        return there.revoke(Session.RevokeReason.ENDED_BY_STAFF, clock.now())
    ids = list(there.values_list("pk", flat=True)[: AT_ONCE + 1])
    ended = _end(ids[:AT_ONCE])
    if len(ids) > AT_ONCE:
        EndingClient.objects.update_or_create(client_id=str(client.pk), defaults={"after": None, "ended": ended})
        invalidate(TAG)
    return ended


def end_batch() -> bool:
    """End the next sessions of a client that is being ended, and note it; return whether there was one. 1 to 4 queries.

    Two processes never work at one client at a time: the second goes on with another one, or finds nothing.
    """
    waiting = EndingClient.objects.select_for_update(skip_locked=True).order_by("began_at", "pk")
    one = waiting.first()
    if one is None:
        return False
    there = Session.objects.filter(client_id=one.client_id, revoked_at=None)
    if one.after is not None:
        there = there.filter(pk__gt=one.after)
    ids = list(there.order_by("pk").values_list("pk", flat=True)[:BATCH])
    one.ended += _end(ids)
    if len(ids) == BATCH:
        one.after = ids[-1]
        one.save(update_fields=["after", "ended"])
    else:
        one.delete()
        log.info("client_sessions_ended", client_id=one.client_id, sessions=one.ended)
    return True


def end_all() -> None:
    """End all that waits, each batch in a transaction of its own; for commands, which have no server to wait for.

    Sessions of clients, and those of everybody (``of_everybody``). One that fails keeps no other one back.

    Raises:
        Exception: The first error there was.
    """
    failed: Exception | None = None
    for step in _steps():
        more = True
        try:
            while more:
                with transaction.atomic():
                    more = step()
        except Exception as error:  # noqa: BLE001 - it is raised below
            failed = failed or error
    if failed is not None:
        raise failed


def _steps() -> tuple[Callable[[], bool], ...]:
    return end_batch, of_everybody.end_batch


async def require_client(client_id: str, claims: AccessClaims) -> None:
    """Refuse a token that was got for one of a client that is no more: the session it lives by ends with that client.

    No query for a client that is known.

    Args:
        client_id: The client that the token's session was opened for.
        claims: What the token says.

    Raises:
        InvalidToken: (401) The client is disabled or deleted.
    """
    if client_id not in (FIRST_PARTY_CLIENT, SSO_CLIENT, *claims.holders) and await clients.find(client_id) is None:
        raise InvalidToken("client")


def _end(ids: list[UUID]) -> int:
    return Session.objects.filter(pk__in=ids).revoke(Session.RevokeReason.ENDED_BY_STAFF, clock.now()) if ids else 0


class _Ending:
    """Ends what waits while this process serves; on its event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    async def start(self) -> None:
        await self.stop()
        self._wake = asyncio.Event()
        for tag in (TAG, of_everybody.TAG):
            invalidation_feed().subscribe(tag, self.wake)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="client-ending")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def wake(self) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                self._wake.clear()
                await self._end_all()
            except Exception:  # this task must never die
                log.exception("client_ending_failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_S)

    async def _end_all(self) -> None:
        """Try each step, whatever has become of another."""
        for step in _steps():
            more = True
            try:
                while more:
                    more = await database().write(step)
                    await asyncio.sleep(REST_S)
            except Unavailable:
                pass  # the pool has logged it
            except Exception:  # the next one may work
                log.exception("client_ending_failed")


_ending = _Ending()


def connect() -> None:
    """End a client's sessions when it ends, and have servers go on with it."""
    client_ends.connect(end_of_client, dispatch_uid="tokens.sessions_end")
    on_startup(_ending.start)
    on_shutdown(_ending.stop)
