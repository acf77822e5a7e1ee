"""Units of work on one person's own account: synchronous, one transaction each, run by the database pool.

None of them hashes: hashing has its own pool, and a transaction must not wait for it.
"""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import models

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import DeletionPending, EmailNotVerified, LastSuperuser, PasswordChanged, PasswordChangeRequired
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users import second_factors
from accounts.users.models import User
from accounts.users.outputs import ACCOUNT_COLUMNS, Account, UserOut, account, account_of
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db.compiled import CompiledSelect, Param


class Credentials(NamedTuple):
    """What a password check needs to know of a user."""

    id: uuid.UUID
    encoded: str
    is_active: bool
    email: str
    name: str
    session_epoch: int
    email_verified_at: datetime | None
    must_change_password: bool
    password_flagged_at: datetime | None
    methods: tuple[str, ...]  # second factors


_CREDENTIALS: Final = (
    "id",
    "password",
    "is_active",
    "email",
    "name",
    "session_epoch",
    "email_verified_at",
    "must_change_password",
    "password_flagged_at",
)
_ID: Final = Param("id", models.UUIDField())
_BY_EMAIL: Final = CompiledSelect(
    lambda: _with_factors(User.objects.filter(email_key=Param("key", models.CharField())))
)
_BY_ID: Final = CompiledSelect(lambda: _with_factors(User.objects.filter(pk=_ID)))
_TAKEN: Final = CompiledSelect(
    lambda: User.objects.filter(email_key=Param("key", models.CharField())).order_by().values_list("pk")
)
_ACCOUNT: Final = CompiledSelect(lambda: User.objects.filter(pk=_ID).order_by().values_list(*ACCOUNT_COLUMNS))


def email_is_taken(key: str) -> bool:
    """Tell whether an account with this folded address exists. One query."""
    return bool(_TAKEN.rows(key=key))


def credentials_of_email(key: str) -> Credentials | None:
    """Return the credentials of this folded address. One query, found or not."""
    return _credentials(_BY_EMAIL.rows(key=key))


def credentials_of_id(user_id: uuid.UUID) -> Credentials | None:
    """Return the credentials of this user. One query."""
    return _credentials(_BY_ID.rows(id=user_id))


def _credentials(rows: list[list[Any]]) -> Credentials | None:
    """Return the credentials of the only row, if there is one."""
    own = len(_CREDENTIALS)
    return Credentials._make([*rows[0][:own], second_factors.named(rows[0][own:])]) if rows else None


def _with_factors(users: "models.QuerySet[User]") -> "models.QuerySet[User, Any]":
    """Return what `Credentials` says of ``users``, which factors they have in the same query."""
    return users.order_by().values_list(*_CREDENTIALS, *second_factors.columns())


def inadmissible(
    *, email_verified_at: datetime | None, must_change_password: bool
) -> EmailNotVerified | PasswordChangeRequired | None:
    """Return why somebody who has proved who they are may not sign in yet, to the API or to the admin.

    Args:
        email_verified_at: When the address was proved; None when it was not.
        must_change_password: Whether staff have asked for another password.
    """
    if emails.is_proof_awaited(email_verified_at):
        return EmailNotVerified()
    return PasswordChangeRequired() if must_change_password else None


def account_snapshot(user_id: uuid.UUID) -> Account | None:
    """Return the user as tokens see it, or nothing where there is none. One query.

    Says nothing about whether the account may be used: look at ``user.is_active`` and ``session_epoch``.
    """
    rows = _ACCOUNT.rows(id=user_id)
    return account_of(rows) if rows else None


def rename(*, user_id: uuid.UUID, name: str, session_id: uuid.UUID | None) -> UserOut:
    """Set the display name.

    Args:
        user_id: The person who is signed in.
        name: The display name, validated.
        session_id: The session it is done in, for the trail.

    Raises:
        NotAuthenticated: The user is gone or inactive.
    """
    record_own(Event.PROFILE_CHANGED, user_id, session_id, fields=["name"])
    user_queries.rename(user_id, name)
    account = account_snapshot(user_id)
    if account is None:
        raise NotAuthenticated(user_queries.GONE)
    return account.user


def set_language(*, user_id: uuid.UUID, language: str, session_id: uuid.UUID | None) -> None:
    """Set the language of pages and messages. Two queries.

    Args:
        user_id: The person who is signed in.
        language: One of the languages of ``LANGUAGES``.
        session_id: The session it is done in, for the trail.

    Raises:
        NotAuthenticated: The user is gone or inactive.
    """
    record_own(Event.PROFILE_CHANGED, user_id, session_id, fields=["language"])
    user_queries.set_language(user_id, language)


def set_password(*, user_id: uuid.UUID, old: str, new: str, session_id: uuid.UUID | None) -> Account:
    """Store the hash ``new`` in place of ``old``, end every session, and have the owner told.

    Args:
        user_id: The person.
        old: The stored hash that the present password was right for.
        new: The hash of the new password.
        session_id: The session it is done in, for the trail.

    Raises:
        NotAuthenticated: The user is gone or inactive.
        PasswordChanged: Another request was faster.
    """
    user = locked(user_id)
    if user.password != old:
        raise PasswordChanged
    user.password, user.must_change_password = new, False
    user_queries.change(user, ["password", "must_change_password"])
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user_id)
    record_own(Event.PASSWORD_CHANGED, user_id, session_id)
    return account(user, user_queries.role_names(user_id))


def upgrade_hash(*, user_id: uuid.UUID, old: str, new: str) -> bool:
    """Store a costlier hash of the same password, unless it was changed meanwhile. One query.

    Args:
        user_id: The person.
        old: The stored hash that the password was right for.
        new: A hash of the same password at the costs of today.
    """
    return User.objects.get_queryset().upgrade_hash(user_id, old, new)


def flag_password(found: Credentials) -> None:
    """Note that the password is in the list of breached ones and have its owner told, once for each password.

    Three queries, one when it was noted before or the password has changed meanwhile.
    """
    if user_queries.flag_password(found.id, found.session_epoch):
        outbox.enqueue(Kind.PASSWORD_FLAGGED, recipient=found.email, user_id=found.id)
        audit.record(Event.PASSWORD_FLAGGED, user_id=found.id)


def end_all_sessions(*, user_id: uuid.UUID, session_id: uuid.UUID | None) -> None:
    """Raise the session epoch: every token made before is dead.

    Args:
        user_id: The person who is signed in.
        session_id: The session it is done in, for the trail; it ends as well.

    Raises:
        NotAuthenticated: The user is gone or inactive.
    """
    user_queries.end_sessions(user_id, if_active=True)
    record_own(Event.SIGN_OUT_EVERYWHERE, user_id, session_id)


def active(user_id: uuid.UUID) -> User:
    """Return an active user. One query.

    Raises:
        NotAuthenticated: There is none with this id.
    """
    user = user_queries.find(user_id)
    if user is None or not user.is_active:
        raise NotAuthenticated(user_queries.GONE)
    return user


def locked(user_id: uuid.UUID, *, epoch: int | None = None) -> User:
    """Return an active user's row, locked until the transaction ends.

    Args:
        user_id: Who it is.
        epoch: Of the session it is done in, for what must not be done in one that has ended, not even for the seconds
            in which another worker may not have heard of that.

    Raises:
        NotAuthenticated: There is no such user, or the session has ended.
    """
    user = user_queries.lock(user_id)
    if user is None or not user.is_active:
        raise NotAuthenticated(user_queries.GONE)
    if epoch is not None and user.session_epoch != epoch:
        raise NotAuthenticated("This session has ended: sign in again.")
    return user


def confirmed(user_id: uuid.UUID, old: str) -> User:
    """Return the user, locked, whose password was right for the hash ``old``.

    Args:
        user_id: The person.
        old: The stored hash that the password was right for.

    Raises:
        PasswordChanged: The password was changed meanwhile.
        NotAuthenticated: The user is gone or inactive.
    """
    user = locked(user_id)
    if user.password != old:
        raise PasswordChanged
    return user


def keep_a_superuser(*, without: Iterable[User]) -> None:
    """Raise ``LastSuperuser`` if nobody but ``without`` is an active superuser; free for people who are none.

    Locks them all, in one order, so that two superusers removing each other at once cannot both succeed.
    """
    leaving = {user.pk for user in without if user.is_superuser and user.is_active}
    if leaving:
        active = User.objects.select_for_update().filter(is_superuser=True, is_active=True).order_by("pk")
        if set(active.values_list("pk", flat=True)) <= leaving:
            raise LastSuperuser


def refuse_being_deleted(user: User) -> None:
    """Raise ``DeletionPending`` for an account that is being deleted: let in, it would lose its address."""
    if user.is_being_deleted:
        raise DeletionPending


def record_own(event: Event, user_id: uuid.UUID, session_id: uuid.UUID | None, **details: object) -> None:
    """Record what a person did to their own account, in the session they did it in.

    Args:
        event: What they did.
        user_id: The person, as actor and as subject.
        session_id: The session it was done in.
        **details: Further fields of the event.
    """
    audit.record(event, actor_id=user_id, user_id=user_id, session_id=session_id, details=details)
