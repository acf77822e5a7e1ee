"""Deleting rows that have no use any more, in short transactions, while the server runs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session as AdminSession
from django.db import DatabaseError, connection, transaction
from django.db.models import Model

from accounts.audit import partitions
from accounts.audit import queries as audit_queries
from accounts.invitations import queries as invitations
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.organizations import queries as organizations
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.passwords import old_system
from accounts.privacy import units as deletions
from accounts.privacy.units import PurgedAccounts
from accounts.transfer import queries as transfer
from ironauth.infrastructure import models as infrastructure
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import idempotency, single_use
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.dynamic import queries as registrations
from tokens.keys import units as key_rotation
from tokens.oauth import expiry, unused_clients
from tokens.sessions.ends import batches
from tokens.sessions.models import Session

#: Rows of one transaction. Deleting a hundred of a million sessions holds SQLite's one writer for 3 ms, and refreshes
#: wait as long. A thousand held it for 50 ms, since each such transaction fills the log and writes it back.
DEFAULT_BATCH = 100
LOCK_WAIT_MS = 60_000  # milliseconds
#: Seconds a session stays after its end, so that staff can still see it; its tokens are long dead.
SESSION_KEEP_S = 86_400
#: Where a walk over the sessions begins: smaller than every id.
FIRST = UUID(int=0)
ACCOUNT_COST = 50  # sessions deleted in the time that one account takes, with all that hangs on it
INVALIDATION_KEEP_S = 3_600  # seconds; every running worker has read a row within 5


@dataclass(frozen=True, slots=True)
class Purged:
    """How many rows of each kind were deleted."""

    accounts: int
    accounts_kept: int
    sessions: int
    admin_sessions: int
    invalidations: int
    signing_keys: int
    throttle_counts: int
    email_tokens: int
    mails: int
    invitations: int
    audit_events: int
    admin_log: int
    used_once: int
    idempotency_keys: int
    kept_devices: int
    left_addresses: int
    oauth: int
    clients: int
    registration_tokens: int
    organizations: int


def purge_expired(*, batch: int = DEFAULT_BATCH, keep_s: int = SESSION_KEEP_S) -> Purged:
    """Delete sessions that ended some time ago, and all other rows that have no use any more.

    These are: accounts whose days of grace are over, expired sessions of the admin, old invalidations, finished signing
    keys, old counts of the throttles, expired e-mail tokens, messages given up a month ago, invitations that ended a
    month ago, audit events older than IRONAUTH_AUDIT_KEEP_DAYS and the admin's log of that time, records of used tokens
    that are long dead, answers that are repeated no more, kept devices that have expired, addresses remembered for a
    lazy migration that is over, OAuth codes, pushed requests and device grants, applications of strangers that nobody
    uses, the tokens with which they could register, and organisations without members.

    Safe to run at any time and more than once at a time.

    Args:
        batch: Rows per transaction.
        keep_s: Seconds a session is kept after its end.
    """
    _wait_for_writers()
    batches.end_all()
    accounts = _purge_accounts(max(1, batch // ACCOUNT_COST))
    audited_before = clock.now() - timedelta(days=settings.IRONAUTH_AUDIT_KEEP_DAYS)
    return Purged(
        accounts=accounts.gone,
        accounts_kept=accounts.kept,
        sessions=_purge_sessions(clock.now() - timedelta(seconds=keep_s), batch),
        admin_sessions=_in_batches(_purge_admin_sessions, batch),
        invalidations=_in_batches(_purge_invalidations, batch),
        signing_keys=key_rotation.forget_finished(),
        throttle_counts=_in_batches(infrastructure.purge_throttles, batch),
        email_tokens=_in_batches(lambda rows: email_tokens.purge(before=clock.now(), batch=rows), batch),
        mails=_in_batches(lambda rows: outbox.purge_failed(batch=rows), batch),
        invitations=_in_batches(lambda rows: invitations.purge(batch=rows), batch),
        audit_events=_purge_audit_partitions(audited_before)
        + _in_batches(lambda rows: audit_queries.delete_batch(audited_before, size=rows), batch),
        admin_log=_in_batches(lambda rows: _purge_admin_log(audited_before, rows), batch),
        used_once=_in_batches(lambda rows: single_use.purge(batch=rows), batch),
        idempotency_keys=_in_batches(lambda rows: idempotency.purge(batch=rows), batch),
        kept_devices=_in_batches(lambda rows: kept_devices.purge(batch=rows), batch),
        left_addresses=0
        if old_system.is_before_its_end()
        else _in_batches(lambda rows: transfer.purge_left(batch=rows), batch),
        oauth=sum(_in_batches(partial(_purge_leftovers, kind), batch) for kind in expiry.KINDS),
        clients=unused_clients.purge(batch=batch),
        registration_tokens=_in_batches(lambda rows: registrations.purge_tokens(batch=rows), batch),
        organizations=_in_batches(lambda rows: organizations.purge(batch=rows), batch),
    )


def _wait_for_writers() -> None:
    """Let this connection wait for SQLite's write lock longer than a request may: nobody waits for the purge.

    SQLite hands the lock to the process that asks at the right moment: a busy server can keep others out for seconds.
    """
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_MS}")


def _purge_accounts(batch: int) -> PurgedAccounts:
    """Delete the accounts that are due, ``batch`` read at once; tell how many went, and how many have to stay."""
    gone = kept = passed = 0
    while True:
        purged = deletions.purge_due(batch)
        gone, kept, passed = gone + purged.gone, kept + purged.kept, passed + purged.passed
        if not any(purged):
            return PurgedAccounts(gone, kept, passed)


def _purge_sessions(before: datetime, batch: int) -> int:
    """Walk the table once by primary key and delete what ended before ``before``; return how many."""
    deleted = 0
    after: UUID | None = FIRST
    while after is not None:
        count, after = purge_batch(before, after=after, batch=batch)
        deleted += count
    return deleted


def purge_batch(before: datetime, *, after: UUID, batch: int) -> tuple[int, UUID | None]:
    """Delete the next ``batch`` sessions that ended before ``before``, in the order of their ids, beyond ``after``.

    Returns how many went, and where to go on; None when there was nothing left.

    Args:
        before: Sessions that ended earlier may go.
        after: The session id that the last batch ended with.
        batch: How many rows at most.
    """
    # A copy of a token is known by the row of its session; what goes on from that ends then.
    needed = Session.objects.filter(goes_on_from__isnull=False, revoked_at=None, idle_expires_at__gt=before)
    due = Session.objects.over(before).filter(pk__gt=after).exclude(pk__in=needed.values("goes_on_from")).order_by("pk")
    ids = list(due.values_list("pk", flat=True)[:batch])
    if not ids:
        return 0, None
    with transaction.atomic():
        # Asked again inside the transaction. _raw_delete: nothing refers to a session, and the end of each was
        # published when it came; delete() would publish it once more.
        deleted = Session.objects.over(before).filter(pk__in=ids)._raw_delete("default")  # noqa: SLF001 - no signals, no loading
    return deleted, ids[-1]


def _purge_audit_partitions(before: datetime) -> int:
    """Make the months of the trail that come next, and drop those that are old; return how many events, estimated."""
    try:
        partitions.make_ahead(connection)
        return partitions.drop_old(connection, before)
    except DatabaseError as error:  # locked all the time, or the table is another user's: the rest goes on
        get_logger().warning("audit_partitions_missing", cause=type(error).__name__)
        return 0


def _purge_admin_sessions(batch: int) -> int:
    """Delete what Django keeps of browsers in the admin, also of those that went no further than the password."""
    over = AdminSession.objects.filter(expire_date__lt=clock.now()).order_by("expire_date")
    keys = list(over.values_list("pk", flat=True)[:batch])
    return AdminSession.objects.filter(pk__in=keys)._raw_delete("default") if keys else 0  # noqa: SLF001 - as above


def _purge_admin_log(before: datetime, batch: int) -> int:
    """Delete what Django's admin has logged, where the trail has forgotten the same act."""
    # By primary key: entries are in order of time, so that no index on it is needed.
    oldest = LogEntry.objects.order_by("pk").values_list("pk", "action_time")[:batch]
    old = [pk for pk, at in oldest if at < before]
    return LogEntry.objects.filter(pk__in=old)._raw_delete("default") if old else 0  # noqa: SLF001 - as above


def _purge_invalidations(batch: int) -> int:
    return infrastructure.purge(older_than_s=INVALIDATION_KEEP_S, batch=batch)


def _purge_leftovers(kind: type[Model], batch: int) -> int:
    return expiry.purge(kind, batch=batch)


def _in_batches(purge: Callable[[int], int], batch: int) -> int:
    """Run ``purge`` in transactions of its own until it finds less than ``batch`` rows; return how many went."""
    total = 0
    while True:
        with transaction.atomic():
            deleted = purge(batch)
        total += deleted
        if deleted < batch:
            return total
