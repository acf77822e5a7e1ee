"""Recording what matters for security, in the transaction of the act: neither exists without the other.

Units of work call `record`; an event that belongs to no transaction (a wrong password) goes through `record_later`.
Address, user agent and request id come from the request being answered (``infrastructure.http.client_context``).
"""

import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django.db import transaction

from accounts.audit.events import Event, Outcome
from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import id_at
from ironauth.infrastructure.db.compiled import CompiledInsert, given_row
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.logs import get_logger

__all__ = [
    "MAX_DETAIL",
    "MAX_NAMES",
    "MAX_UNWRITTEN",
    "Details",
    "Event",
    "Outcome",
    "record",
    "record_each",
    "record_later",
    "wait_until_written",
]

type Details = Mapping[str, object]  # JSON: texts, numbers, flags, and lists of texts

MAX_DETAIL: Final = 255  # characters of one name; the longest, a role's, has 150
MAX_NAMES: Final = 100  # names in one list; as many as roles in a request
#: Events on their way to the database that no answer waits for. Above it answers wait again, so memory is bounded.
MAX_UNWRITTEN: Final = 1_000


_INSERT: Final = CompiledInsert(lambda: given_row(AuditEvent))


def record(
    event: Event,
    *,
    outcome: Outcome = Outcome.SUCCESS,
    actor_id: uuid.UUID | None = None,
    user_id: uuid.UUID | None = None,
    session_id: uuid.UUID | None = None,
    details: Details | None = None,
) -> None:
    """Add an event; call it in the transaction of the act. One query, the same for every event.

    Args:
        event: What happened.
        outcome: How it ended.
        actor_id: Who did it; None when nobody proved who they are, or a command did it.
        user_id: Whose account it is about.
        session_id: The session it was done in.
        details: Names and ids of what was touched, never values of fields.
    """
    _INSERT.run(**_values(event, outcome, actor_id, user_id, session_id, details))
    _count_committed(event, outcome, 1)


def record_own(event: Event, user_id: uuid.UUID, session_id: uuid.UUID | None, **details: object) -> None:
    """Record what a person did to their own account, in the session they did it in.

    Args:
        event: What they did.
        user_id: The person, as actor and as subject.
        session_id: The session it was done in.
        **details: Further fields of the event.
    """
    record(event, actor_id=user_id, user_id=user_id, session_id=session_id, details=details)


def record_each(
    event: Event,
    targets: Iterable[tuple[uuid.UUID, uuid.UUID | None]],
    *,
    actor_id: uuid.UUID | None,
    details: Details | None = None,
) -> None:
    """Add one event for each user, or for each user and session, of an act on many. One query for a batch of them.

    Args:
        event: What was done.
        targets: For each event the user, and the session if one is concerned.
        actor_id: Who did it; None for the system itself.
        details: Stored alike with each of them.
    """
    rows = [
        AuditEvent(**_values(event, Outcome.SUCCESS, actor_id, user_id, session_id, details))
        for user_id, session_id in targets
    ]
    AuditEvent.objects.bulk_create(rows)
    _count_committed(event, Outcome.SUCCESS, len(rows))


async def record_later(
    event: Event,
    *,
    outcome: Outcome,
    user_id: uuid.UUID | None = None,
    actor_id: uuid.UUID | None = None,
    session_id: uuid.UUID | None = None,
    details: Details | None = None,
) -> None:
    """Add an event that is part of no act, without making the answer wait for the database.

    When this returns, the event is on the database pool's queue, and a server that stops empties that queue first. An
    event that could not be written goes to the log as ``audit_event_lost``, with all that is known. When
    ``MAX_UNWRITTEN`` events are waiting, this waits as well.

    Args:
        event: What was tried.
        outcome: How it ended.
        user_id: The account it was about; None where it is not known.
        actor_id: Who tried; None for somebody who has proved nothing.
        session_id: The session it was tried in.
        details: Nothing secret, and nothing that a stranger typed.

    Raises:
        Unavailable: As many are waiting, and the database has no time.
    """
    values = _values(event, outcome, actor_id, user_id, session_id, details)
    if _unwritten.add():
        database().enqueue_write(lambda: _INSERT.run(**values), done=lambda error: _written(values, error))
    else:
        await database().write_autocommit(lambda: _INSERT.run(**values))
    _count(event, outcome, 1)


def wait_until_written(limit_s: float = 10.0) -> bool:
    """Block until nothing is on its way to the database, at most ``limit_s`` seconds; return whether it came to that.

    For tests, which look at the table or empty it.
    """
    return _unwritten.wait(limit_s)


class _Unwritten:
    """How many events are on their way; shared by all threads."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def add(self) -> bool:
        """Count one more, if there is room."""
        with self._changed:
            if self._count >= MAX_UNWRITTEN:
                return False
            self._count += 1
            return True

    def remove(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, limit_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, limit_s)


_unwritten = _Unwritten()


def _written(values: dict[str, Any], error: BaseException | None) -> None:
    """Take note of how the writing of an event ended; on a pool's thread."""
    if error is not None:  # ids and names only, as everything in the log
        known = {name: str(value) for name, value in values.items() if value and name not in ("address", "event")}
        get_logger().error("audit_event_lost", audit_event=values["event"], cause=type(error).__name__, **known)
    _unwritten.remove()


def _count(event: Event, outcome: Outcome, events: int) -> None:
    if metrics.recorder is not None:
        metrics.recorder.count("ironauth_audit_events", event.value, outcome.value, by=events)


def _count_committed(event: Event, outcome: Outcome, events: int) -> None:
    """Count what this transaction records: when it is repeated or rolled back, it leaves no event either."""
    if metrics.recorder is not None:
        transaction.on_commit(partial(_count, event, outcome, events), robust=True)


def _values(
    event: Event,
    outcome: Outcome,
    actor_id: uuid.UUID | None,
    user_id: uuid.UUID | None,
    session_id: uuid.UUID | None,
    details: Details | None,
) -> dict[str, Any]:
    """Return the columns of an event that happens now, context the request being answered comes."""
    now, context = clock.now(), client_context.current()
    return {
        "id": id_at(now),
        "at": now,
        "event": event.value,
        "outcome": outcome.value,
        "actor_id": actor_id,
        "user_id": user_id,
        "session_id": session_id,
        "address": context.address or None,
        "user_agent": context.user_agent,
        "request_id": context.request_id,
        "details": {name: _bounded(value) for name, value in (details or {}).items()},
    }


def _bounded(value: Any) -> Any:
    """Return a detail with its texts cut to what may be kept, and without control characters."""
    if isinstance(value, str):
        return client_context.printable(value, MAX_DETAIL)
    if isinstance(value, Sequence):
        return [client_context.printable(name, MAX_DETAIL) for name in value[:MAX_NAMES]]
    return value
