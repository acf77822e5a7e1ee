"""Recording what matters for security, in the transaction of the act: neither exists without the other.

Units of work call `record`; an event that belongs to no transaction (a wrong password) goes through `record_later`.
Address, user agent and request id come from the request being answered (``infrastructure.http.client_context``).
"""

import enum
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import id_at
from ironauth.infrastructure.db.batch import when_written
from ironauth.infrastructure.db.compiled import CompiledInsert, given_row
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.logs import get_logger

type Details = Mapping[str, object]  # JSON: texts, numbers, flags, and lists of texts

MAX_DETAIL: Final = 255  # characters of one name; the longest, a role's, has 150
MAX_NAMES: Final = 100  # names in one list; as many as roles in a request
#: Events on their way to the database that no answer waits for. Above it answers wait again, so memory is bounded.
MAX_UNWRITTEN: Final = 1_000


class Event(enum.StrEnum):
    """What happened; the codes are for other programs and never change their meaning."""

    SIGN_UP = "sign_up"
    SIGN_IN = "sign_in"
    SECOND_FACTOR_ASKED = (
        "second_factor_asked"  # a right password, and nothing open yet: a sign-in follows, or does not
    )
    SIGN_OUT = "sign_out"
    SIGN_OUT_EVERYWHERE = "sign_out_everywhere"
    REFRESH_REUSE = "refresh_reuse"  # an old refresh token was used again, and its session has been ended for it
    CLIENT_SIGN_IN = "client_sign_in"  # an application got tokens for a person; each of its refreshes is no event
    DEVICE_ALLOWED = "device_allowed"  # a person let a device in, whose tokens it fetches itself (CLIENT_SIGN_IN)
    TOKEN_EXCHANGED = "token_exchanged"  # noqa: S105 - the name of an event; a client got a token to act for a person
    CODE_REUSE = "code_reuse"  # an authorization code was used again, and the session of its first use ended for it
    SESSION_ENDED = "session_ended"
    SESSIONS_ENDED = "sessions_ended"  # all of one person, by staff
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - the name of an event
    PASSWORD_RESET_REQUESTED = "password_reset_requested"  # noqa: S105 - as above; without user: for an unknown address
    PASSWORD_RESET = "password_reset"  # noqa: S105 - as above
    PASSWORD_CHANGE_REQUIRED = "password_change_required"  # noqa: S105 - as above; by staff
    PASSWORD_FLAGGED = "password_flagged"  # noqa: S105 - as above; the one in use was found in the list of breached ones
    VERIFICATION_REQUESTED = "verification_requested"  # without user: for an unknown or verified address
    EMAIL_VERIFIED = "email_verified"
    EMAIL_CHANGE_REQUESTED = "email_change_requested"
    EMAIL_CHANGED = "email_changed"
    MAIL_GIVEN_UP = "mail_given_up"
    MAIL_RETRIED = "mail_retried"  # staff had a message tried again
    MFA_ENABLED = "mfa_enabled"
    MFA_DISABLED = "mfa_disabled"
    MFA_RESET = "mfa_reset"  # every factor is gone: by staff
    RECOVERY_CODES_CREATED = "recovery_codes_created"
    RECOVERY_CODE_USED = "recovery_code_used"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    STEP_UP = "step_up"
    PROFILE_CHANGED = "profile_changed"
    ACCOUNT_DELETED = "account_deleted"  # by the person or, ``disowned``, who has the mailbox; staff leave USER_DELETED
    ACCOUNT_RESTORED = "account_restored"  # within the days of grace
    ACCOUNT_PURGED = "account_purged"  # after them, for good
    DATA_EXPORTED = "data_exported"
    USER_CREATED = "user_created"
    USER_CHANGED = "user_changed"
    USER_DELETED = "user_deleted"
    ROLE_GIVEN = "role_given"
    ROLE_TAKEN = "role_taken"
    ROLE_CREATED = "role_created"
    ROLE_CHANGED = "role_changed"
    ROLE_DELETED = "role_deleted"
    ADMIN_SIGN_IN = "admin_sign_in"
    ADMIN_SIGN_OUT = "admin_sign_out"
    ACCESS_DENIED = "access_denied"  # somebody signed in asked the staff API, or the admin, for what they may not
    THROTTLED = "throttled"  # tried too often: at most once an hour for each count and process
    FAILURES_FORGIVEN = "failures_forgiven"  # an operator let somebody in again
    KEYS_CREATED = "keys_created"
    KEY_ROTATED = "key_rotated"
    KEY_DROPPED = "key_dropped"
    SECRETS_RESEALED = "secrets_resealed"  # those of second factors, under the newest master key
    BREACHED_LIST_INSTALLED = "breached_list_installed"
    CLIENT_CREATED = "client_created"  # an application that signs its users in here
    CLIENT_CHANGED = "client_changed"
    CLIENT_DISABLED = "client_disabled"
    CLIENT_ENABLED = "client_enabled"
    CLIENT_DELETED = "client_deleted"
    CLIENT_SECRET_ROTATED = "client_secret_rotated"  # noqa: S105 - as above
    CONSENT_GIVEN = "consent_given"  # a person let an application have what it asked for
    CONSENT_REVOKED = "consent_revoked"  # by the person, or by staff


class Outcome(enum.StrEnum):
    """How it ended. FAILURE: a proof was wrong, or a message was not accepted.

    REFUSED: the proof was right, or needless, and a rule forbade it.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    REFUSED = "refused"


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

    ``actor_id``: who did it, None when nobody proved who they are, or a command did it. ``user_id``: whose account it
    is about. ``details``: names and ids of what was touched, never values of fields.
    """
    _INSERT.run(**_values(event, outcome, actor_id, user_id, session_id, details))
    _count_committed(event, outcome, 1)


def record_each(
    event: Event,
    targets: Iterable[tuple[uuid.UUID, uuid.UUID | None]],
    *,
    actor_id: uuid.UUID | None,
    details: Details | None = None,
) -> None:
    """Add one event for each user, or for each user and session, of an act on many. One query for a batch of them."""
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

    It is on the database pool's queue when this returns, and a server that stops empties that queue first. What could
    not be written is in the log, as ``audit_event_lost`` with all that is known. When ``MAX_UNWRITTEN`` are waiting,
    this waits as well; raises ``Unavailable`` only then.
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
        when_written(partial(_count, event, outcome, events))


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
