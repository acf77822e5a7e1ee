"""Units of work on accounts their owners delete: put off by some days, taken back, carried out. One transaction each.

In the days of grace the account can do nothing, and its address is free: anybody who signs up with it gets an account
of their own. So the address moves into a row beside the user's, and the user's row gets a stand-in that no other
account can have (``emails.validate`` refuses it).
"""

import uuid
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts import email_address as emails
from accounts.access.rights import CHANGE_USERS, target_of
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import InvalidEmailToken, NothingToDo, PasswordChanged
from accounts.lockout import throttling
from accounts.mfa import factors
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.tokens import FoundToken, Purpose
from accounts.privacy import queries
from accounts.privacy.models import PendingDeletion
from accounts.privacy.outputs import Deleted
from accounts.users import queries as user_queries
from accounts.users import rules
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.telemetry.logs import get_logger

RETRY: Final = timedelta(days=1)  # the purge runs once a day
DISOWNED_DAYS: Final = 7  # of grace for accounts that are disowned, where their owners' deletions have none
_TIME_FORMAT: Final = "%-d %B %Y, %H:%M UTC"  # as people read it; LANGUAGE_CODE is English


def request(*, user_id: uuid.UUID, old: str, session_id: uuid.UUID | None) -> None:
    """End the account: in IRONAUTH_DELETION_GRACE_DAYS, of which a message tells the owner, or with 0 now, for good.

    Args:
        user_id: Whose it is.
        old: The hash the password was right for.
        session_id: The session it is done in.

    Raises:
        NotAuthenticated: The user is gone or inactive.
        PasswordChanged: The password was changed meanwhile.
        LastSuperuser: Nobody could run the system.
    """
    user = rules.locked(user_id)
    if user.password != old:
        raise PasswordChanged
    rules.require_deletable([user])
    days = settings.IRONAUTH_DELETION_GRACE_DAYS
    if days:
        _put_off(user, clock.now() + timedelta(days=days))
    else:
        throttling.forget_devices(email=user.email)
        queries.delete(user)
    audit.record(
        Event.ACCOUNT_DELETED,
        actor_id=user_id,
        user_id=user_id,
        session_id=session_id,
        details={"grace_days": days},
    )


def deleted_by(token: str) -> Deleted | None:
    """Return what a token would restore; None when it is good for nothing. Five queries at most, and no change."""
    found = email_tokens.find(token, Purpose.RESTORE_ACCOUNT)
    user = user_queries.find(found.user_id) if found else None
    pending = PendingDeletion.objects.filter(pk=user.pk).first() if user else None
    if user is None or pending is None:
        return None
    proved = pending.email_verified_at is not None
    ways = () if proved else factors.kept(user.pk)
    return Deleted(pending.email, user.created_at, proved, ways, _may_disown_deleted(user, pending))


def restore(*, found: FoundToken) -> bool:
    """Use the token up and let its user in again, under the address and the password of before.

    Return whether the address is proved: as it was before the deletion. The click proves nothing new, for a message of
    ours asked for it, and the account may be a stranger's.

    Raises:
        InvalidEmailToken: The token was used, or the account purged or restored, since it was found.
        IntegrityError: Somebody else has the address meanwhile.
    """
    user, pending = _deleted(found)
    _take_back(user, pending)
    audit.record(Event.ACCOUNT_RESTORED, actor_id=user.pk, user_id=user.pk)
    return user.email_verified_at is not None


def disown_deleted(*, found: FoundToken) -> None:
    """Use the token up and leave the account to its end, as its mailbox's owner says that somebody else made it.

    The click may have been a mistake: a new message takes it back until then.

    Raises:
        InvalidEmailToken: As above, and where somebody has proved the address.
    """
    user, pending = _deleted(found)
    if not _may_disown_deleted(user, pending):
        raise InvalidEmailToken
    _tell(user, pending, disowned=True)
    days = (pending.due_at - pending.requested_at).days
    audit.record(Event.ACCOUNT_DELETED, user_id=user.pk, details={"grace_days": days, "disowned": True})


def restore_by_staff(*, user_id: uuid.UUID, actor_id: uuid.UUID) -> bool:
    """Restore an account without a token; return False when nothing is to be taken back.

    Args:
        user_id: The account being deleted.
        actor_id: The member of staff, whose right the caller has judged.

    Raises:
        IntegrityError: Somebody else has the address meanwhile.
    """
    user = user_queries.lock(user_id)
    pending = PendingDeletion.objects.filter(pk=user_id).first()
    if user is None or pending is None:
        return False
    _take_back(user, pending)
    audit.record(Event.ACCOUNT_RESTORED, actor_id=actor_id, user_id=user_id)
    return True


def restore_for_staff(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Let somebody who is being deleted in again as they were; the caller's rights are judged here.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The account; locked until the transaction ends.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not change users, or not this one.
        NothingToDo: It is not being deleted.
        IntegrityError: Somebody else has the address meanwhile.
    """
    rights, user = target_of(actor_id, user_id, CHANGE_USERS)
    if user is None:
        raise NotFound("There is no user with this id.")
    rights.require_all_of(user)
    if not restore_by_staff(user_id=user_id, actor_id=actor_id):
        raise NothingToDo


def _may_disown_deleted(user: User, pending: PendingDeletion) -> bool:
    return pending.email_verified_at is None and not (user.is_staff or user.is_superuser)


def disown(*, found: FoundToken) -> None:
    """Use the token up and end an account that somebody made under an address they do not read the mail of.

    Whatever lets them in, second factors too, is worth nothing from now on, and nobody else gets in either: the address
    is free for its owner. Never at once for good, for the click may have been a mistake; a message takes it back.

    Raises:
        InvalidEmailToken: The token was used, or `may_disown` has become false, since it was found.
    """
    user = user_queries.lock(found.user_id)
    if user is None or not queries.may_disown(user) or not email_tokens.consume(found.id):
        raise InvalidEmailToken
    days = settings.IRONAUTH_DELETION_GRACE_DAYS or DISOWNED_DAYS
    _put_off(user, clock.now() + timedelta(days=days), disowned=True)
    audit.record(Event.ACCOUNT_DELETED, user_id=user.pk, details={"grace_days": days, "disowned": True})


class PurgedAccounts(NamedTuple):
    """What became of accounts whose days of grace were over.

    Attributes:
        gone: Accounts that were deleted.
        kept: Accounts that had to stay, because rows of other applications refer to them.
        passed: Accounts that were not to go after all: restored at this moment, or changed by another program.
    """

    gone: int
    kept: int
    passed: int = 0


def purge_due(batch: int) -> PurgedAccounts:
    """Delete at most ``batch`` accounts whose time has come, for good; tell what became of them: of none at the end.

    Eleven queries for each, in a transaction of its own: call it outside of any, because foreign keys of other
    programs are judged when that ends. Anybody who restores one at this moment, or purges too, waits, and then finds it
    decided. One that rows of an application protect is logged, and tried again a day later, so that it
    holds up nobody else.
    """
    now = clock.now()
    due = PendingDeletion.objects.filter(due_at__lte=now, user__is_active=False).order_by("due_at", "pk")
    gone = kept = passed = 0
    for user_id in list(due.values_list("pk", flat=True)[:batch]):
        try:
            with transaction.atomic():
                went = _purge(user_id)
        except IntegrityError as error:  # Django's ProtectedError and RestrictedError are such
            PendingDeletion.objects.filter(pk=user_id).update(due_at=now + RETRY)
            get_logger().error("account_not_purged", user_id=str(user_id), cause=type(error).__name__)
            kept += 1
        else:
            gone += went
            passed += not went
    return PurgedAccounts(gone, kept, passed)


def _purge(user_id: uuid.UUID) -> bool:
    """Delete an account for good, unless it was restored, or taken into use by whatever hand; tell whether it went."""
    user = user_queries.lock(user_id)
    if user is None or user.is_active:
        return False
    if not user.is_being_deleted:  # brought back, and deactivated since
        PendingDeletion.objects.filter(pk=user_id).delete()
        return False
    queries.delete(user)
    audit.record(Event.ACCOUNT_PURGED, user_id=user_id)
    return True


def _put_off(user: User, due_at: datetime, *, disowned: bool = False) -> None:
    pending = PendingDeletion(
        user=user, email=user.email, email_verified_at=user.email_verified_at, requested_at=clock.now(), due_at=due_at
    )
    throttling.forget_devices(email=user.email)  # the address is free: its next owner did not sign in on them
    pending.save()  # not create(): a row of before is left where the account was brought back by another hand than ours
    user.email, user.is_active = emails.stand_in(user.pk), False
    user_queries.change(user, ["email", "is_active"])  # every session ends, and every earlier message opens nothing
    _tell(user, pending, disowned=disowned)


def _tell(user: User, pending: PendingDeletion, *, disowned: bool) -> None:
    """Queue the message that takes the deletion back; while nobody has proved the address, it says what that means."""
    unproved = pending.email_verified_at is None
    token_id = email_tokens.issue(purpose=Purpose.RESTORE_ACCOUNT, user_id=user.pk, expires_at=pending.due_at)
    outbox.enqueue(
        Kind.ACCOUNT_DELETION,
        recipient=pending.email,
        user_id=user.pk,
        token_id=token_id,
        facts={
            "due_at": pending.due_at.isoformat(),
            "made_at": user.created_at.isoformat(),
            "due": pending.due_at.strftime(_TIME_FORMAT),  # what workers of an earlier release say, as "made" is
            "disowned": disowned,
            "unproved": unproved,
            "made": user.created_at.strftime(_TIME_FORMAT),
            "has_factors": unproved and bool(factors.methods_of(user.pk)),
        },
    )


def _deleted(found: FoundToken) -> tuple[User, PendingDeletion]:
    """Return the token's user, locked, and the deletion, after using the token up. Raises ``InvalidEmailToken``."""
    user = user_queries.lock(found.user_id)
    if user is None or not email_tokens.consume(found.id):
        raise InvalidEmailToken
    pending = PendingDeletion.objects.filter(pk=user.pk).first()
    if pending is None:
        raise InvalidEmailToken
    return user, pending


def _take_back(user: User, pending: PendingDeletion) -> None:
    pending.delete()
    user.email, user.is_active, user.email_verified_at = pending.email, True, pending.email_verified_at
    user_queries.change(user, ["email", "is_active", "email_verified_at"])
