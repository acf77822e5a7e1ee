"""The queue of back-channel logouts as units of work: written with the end of a session, read by the delivery.

A worker takes a notice by one conditional UPDATE, which exactly one of several workers wins on any database. It raises
the number of attempts, and that number proves that the notice is still the worker's. A worker that dies delays the
notice by ``LEASE_S``, no more.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.db import models
from django.db.models import F, Q

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledSelect, Param
from ironauth.infrastructure.db.outbox import LEASE_S, MAX_DUE, is_too_old, retry_after
from tokens.clients.models import OAuthClient
from tokens.oauth.models import LogoutNotice

FIRST_RETRY_S: Final = 5  # seconds after the first failure, doubled after each further one

_DUE: Final = CompiledSelect(
    lambda: (
        LogoutNotice.objects.filter(due_at__lte=Param("now", models.DateTimeField()))
        .order_by("due_at")
        .values_list("id")[:MAX_DUE]
    )
)


class Claimed(NamedTuple):
    """A notice this worker may deliver until its lease ends; ``session_id`` is the ``sid`` its client knows."""

    id: UUID
    client_id: UUID
    user_id: UUID
    session_id: UUID
    attempts: int
    created_at: datetime


def queue(*, signed_in: set[tuple[str, UUID, UUID]], **_: object) -> None:
    """Queue a notice for each client, person and SSO session whose client wants to hear of its end. 2 queries at most.

    A receiver of ``ending.clients_signed_out``.

    Args:
        signed_in: Client, person and SSO session of each that has ended.
        **_: What else the signal brings.
    """
    wanted = OAuthClient.objects.filter(
        ~Q(backchannel_logout_uri=""), pk__in={client_id for client_id, *_ in signed_in}, disabled_at=None
    )
    listening = {str(client_id) for client_id in wanted.values_list("pk", flat=True)}
    LogoutNotice.objects.bulk_create(
        LogoutNotice(client_id=UUID(client_id), user_id=user_id, session_id=parent_id)
        for client_id, user_id, parent_id in sorted(signed_in, key=str)
        if client_id in listening
    )


def due() -> list[UUID]:
    """Return the notices whose turn has come and that nobody has taken, the longest waiting first. One query."""
    return [notice_id for (notice_id,) in _DUE.rows(now=clock.now())]


def claim(notice_id: UUID) -> Claimed | None:
    """Take a notice for ``LEASE_S`` seconds; None when it is gone, taken, or not due. Two queries at most."""
    now = clock.now()
    mine = LogoutNotice.objects.filter(pk=notice_id, due_at__lte=now)
    if not mine.update(due_at=now + timedelta(seconds=LEASE_S), attempts=F("attempts") + 1):
        return None
    return Claimed(*LogoutNotice.objects.values_list(*Claimed._fields).get(pk=notice_id))


def done(notice: Claimed) -> None:
    """Forget a notice that its client has confirmed, or will never need. One query."""
    LogoutNotice.objects.filter(pk=notice.id).delete()


def put_back(notice: Claimed) -> None:
    """Let a notice that was not tried wait for a moment, as if nobody had taken it. One query."""
    mine = LogoutNotice.objects.filter(pk=notice.id, attempts=notice.attempts)
    mine.update(due_at=clock.now() + retry_after(1, first_s=FIRST_RETRY_S), attempts=F("attempts") - 1)


def failed(notice: Claimed) -> bool:
    """Let a notice that was not confirmed wait for its next turn; return True when it is given up. One query.

    Nothing happens to one whose lease was lost.
    """
    now = clock.now()
    mine = LogoutNotice.objects.filter(pk=notice.id, attempts=notice.attempts)
    if is_too_old(notice.created_at, now):
        return mine.delete()[0] > 0
    mine.update(due_at=now + retry_after(notice.attempts, first_s=FIRST_RETRY_S))
    return False
