"""What units of work ask of users and their rows: each one statement, compiled once."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models import Exists, F, Q
from django.utils.translation import gettext_noop as _

from accounts import names
from accounts.users import invariants, second_factors
from accounts.users.invariants import sub_tag
from accounts.users.models import User, check_and_normalize
from accounts.users.outputs import ACCOUNT_COLUMNS, Account, account_of
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db.compiled import (
    CompiledDelete,
    CompiledInsert,
    CompiledSelect,
    CompiledUpdate,
    Param,
    given_row,
)

GONE: Final = _("This account does not exist any more: sign in again.")


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


class Holder(NamedTuple):
    """The account that has an address."""

    id: uuid.UUID
    email: str
    is_active: bool
    email_verified_at: datetime | None


_ID: Final = Param("id", models.UUIDField())


@cache
def _columns() -> tuple[str, ...]:
    return tuple(field.attname for field in User._meta.concrete_fields)  # noqa: SLF001 - documented by Django


def _whole_row() -> "models.QuerySet[User, Any]":
    return User.objects.filter(pk=_ID).order_by().values_list(*_columns())


_FIND: Final = CompiledSelect(_whole_row)
_LOCK: Final = CompiledSelect(lambda: _whole_row().select_for_update())
_ACTOR: Final = User.objects.filter(pk=Param("actor_id", models.UUIDField()), is_active=True)
_LOCK_BY_STAFF: Final = CompiledSelect(
    lambda: (
        User.objects.filter(Exists(_ACTOR.filter(Q(is_staff=True) | Q(is_superuser=True))), pk=_ID)
        .order_by()
        .values_list(*_columns(), Exists(_ACTOR.filter(is_superuser=True)))
        .select_for_update()
    )
)
_LANGUAGE: Final = CompiledSelect(
    lambda: User.objects.filter(pk=_ID, is_active=True).order_by().values_list("language")
)
_SET_LANGUAGE: Final = CompiledUpdate(
    lambda: User.objects.filter(pk=_ID, is_active=True),
    language=Param("language", models.CharField()),
    updated_at=Param("now", models.DateTimeField()),
)
_END_SESSIONS: Final = CompiledUpdate(
    lambda: User.objects.filter(pk=_ID),
    session_epoch=F("session_epoch") + 1,
    updated_at=Param("now", models.DateTimeField()),
)
_END_OWN_SESSIONS: Final = CompiledUpdate(
    lambda: User.objects.filter(pk=_ID, is_active=True),
    session_epoch=F("session_epoch") + 1,
    updated_at=Param("now", models.DateTimeField()),
)
_FLAG_PASSWORD: Final = CompiledUpdate(
    lambda: User.objects.filter(pk=_ID, session_epoch=Param("epoch", models.IntegerField()), password_flagged_at=None),
    password_flagged_at=Param("now", models.DateTimeField()),
)
_INSERT: Final = CompiledInsert(lambda: given_row(User))
_INSERT_UNLESS_TAKEN: Final = CompiledInsert(lambda: given_row(User), ignore_conflicts=True)
_ID_BY_KEY: Final = CompiledSelect(
    lambda: (
        User.objects.filter(email_key=Param("key", models.CharField()))
        .order_by()
        .select_for_update(no_key=True)  # a sign-in at this moment refers to the row and need not wait
        .values_list("id", "email", "is_active", "email_verified_at")
    )
)
_GIVE_ROLE: Final = CompiledInsert(lambda: given_row(User.groups.through), ignore_conflicts=True)
_TAKE_ROLE: Final = CompiledDelete(
    lambda: User.groups.through.objects.filter(
        user_id=Param("user_id", models.UUIDField()), group_id=Param("group_id", models.IntegerField())
    )
)
_ROLE_NAMES: Final = CompiledSelect(lambda: User.objects.filter(pk=_ID).order_by().values_list("groups__name"))
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
_BY_EMAIL: Final = CompiledSelect(
    lambda: with_credentials(User.objects.filter(email_key=Param("key", models.CharField())))
)
_BY_ID: Final = CompiledSelect(lambda: with_credentials(User.objects.filter(pk=_ID)))
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
    return credentials_of_row(rows[0]) if rows else None


def with_credentials(users: "models.QuerySet[User]", *more: str) -> "models.QuerySet[User, Any]":
    """Return what `Credentials` says of users, which factors they have in the same query.

    Args:
        users: Who is asked for.
        more: Columns that come before.
    """
    return users.order_by().values_list(*more, *_CREDENTIALS, *second_factors.columns())


def credentials_of_row(row: list[Any]) -> Credentials:
    """Return the credentials that a row of ``with_credentials`` has, without what comes before them."""
    own = len(_CREDENTIALS)
    return Credentials._make([*row[:own], second_factors.named(row[own:])])


def account_snapshot(user_id: uuid.UUID) -> Account | None:
    """Return the user as tokens see it, or nothing where there is none. One query.

    Says nothing about whether the account may be used: look at ``user.is_active`` and ``session_epoch``.
    """
    rows = _ACCOUNT.rows(id=user_id)
    return account_of(rows) if rows else None


def find(user_id: uuid.UUID) -> User | None:
    """Return the user, if there is one. One query."""
    return _user(_FIND.rows(id=user_id))


def lock(user_id: uuid.UUID) -> User | None:
    """Return the user, if there is one, locked until the transaction ends. One query."""
    return _user(_LOCK.rows(id=user_id))


def lock_by_staff(user_id: uuid.UUID, *, actor_id: uuid.UUID) -> tuple[User, bool] | None:
    """Return the user, locked until the transaction ends, and whether ``actor_id`` is a superuser. One query.

    None where there is no such user, and where the actor is inactive or has no access to the admin. So nobody else can
    make others wait for a lock by asking for an act they may not do.

    Args:
        user_id: The person it is done to.
        actor_id: The member of staff who asks.
    """
    rows = _LOCK_BY_STAFF.rows(id=user_id, actor_id=actor_id)
    return (User.from_db(DEFAULT_DB_ALIAS, _columns(), rows[0][:-1]), bool(rows[0][-1])) if rows else None


def role_names(user_id: uuid.UUID) -> tuple[str, ...]:
    """Return the names of the user's roles. One query."""
    return tuple(name for (name,) in _ROLE_NAMES.rows(id=user_id) if name is not None)


def set_profile(user_id: uuid.UUID, values: Mapping[str, str]) -> None:
    """Set columns of the profile of an active user and invalidate them. Two queries.

    Args:
        user_id: The person.
        values: The new values by the names of columns of ``profile.Profile``; they are normalised here.

    Raises:
        NotAuthenticated: There is none, which has to end the transaction.
    """
    invalidate(sub_tag(user_id))
    given = {field: names.normalise(value) for field, value in values.items()}
    if not _profile_update(frozenset(given)).run(id=user_id, now=clock.now(), **given):
        raise NotAuthenticated(GONE)


@cache  # of the combinations that forms and providers send: a handful
def _profile_update(fields: frozenset[str]) -> CompiledUpdate:
    changes = {field: Param(field, models.CharField()) for field in sorted(fields)}
    return CompiledUpdate(
        lambda: User.objects.filter(pk=_ID, is_active=True),
        **changes,
        updated_at=Param("now", models.DateTimeField()),
    )


def language(user_id: uuid.UUID) -> str:
    """Return the language an active user has chosen, "" for none. One query.

    Raises:
        NotAuthenticated: There is no such user.
    """
    rows = _LANGUAGE.rows(id=user_id)
    if not rows:
        raise NotAuthenticated(GONE)
    return str(rows[0][0])


def set_language(user_id: uuid.UUID, code: str) -> None:
    """Set the language of an active user and invalidate them. Two queries.

    Args:
        user_id: The person.
        code: One of the languages of ``LANGUAGES``.

    Raises:
        NotAuthenticated: There is none, which has to end the transaction.
    """
    invalidate(sub_tag(user_id))
    if not _SET_LANGUAGE.run(id=user_id, language=code, now=clock.now()):
        raise NotAuthenticated(GONE)


def flag_password(user_id: uuid.UUID, epoch: int) -> bool:
    """Note that the password of this epoch is known from a breach; return False when it was noted, or has changed.

    The password is identified by its epoch, not by its hash, which the same sign-in may have made anew. One query.

    Args:
        user_id: The person.
        epoch: The session epoch when the password was judged; a new password raises it.
    """
    return _FLAG_PASSWORD.run(id=user_id, epoch=epoch, now=clock.now()) > 0


def end_sessions(user_id: uuid.UUID, *, if_active: bool = False) -> None:
    """Raise the session epoch, which ends every session, and invalidate the user. Call it inside a transaction.

    Two queries; what the receivers of ``invariants.sessions_end`` do comes on top.

    Args:
        user_id: Whose sessions end.
        if_active: Whether the user has to be active.

    Raises:
        NotAuthenticated: there is no such user. It has to end the transaction.
    """
    invariants.sessions_end.send(sender=User, user_ids=[user_id])
    invalidate(sub_tag(user_id))
    if not (_END_OWN_SESSIONS if if_active else _END_SESSIONS).run(id=user_id, now=clock.now()):
        raise NotAuthenticated(GONE)


def add(user: User) -> None:
    """Store a new user, as ``save`` does. One query.

    Raises:
        IntegrityError: The address is taken.
    """
    _INSERT.run(**{column: getattr(user, column) for column in _columns()})
    user._state.adding = False  # noqa: SLF001 - documented by Django


def add_unless_taken(user: User) -> bool:
    """Store a new user, unless the address is taken; return whether it was stored. One query."""
    added = _INSERT_UNLESS_TAKEN.run(**{column: getattr(user, column) for column in _columns()}) > 0
    user._state.adding = not added  # noqa: SLF001 - documented by Django
    return added


def lock_holder(key: str) -> Holder | None:
    """Return who has this folded address, if anybody, locked until the transaction ends. One query, found or not."""
    rows = _ID_BY_KEY.rows(key=key)
    return Holder(*rows[0]) if rows else None


def change(user: User, fields: Iterable[str]) -> None:
    """Store these fields of a user, as ``save`` does, and invalidate them. Call it inside a transaction.

    Two queries, one when nobody can see the fields. One more when a field is among them that may end sessions, and
    another when sessions end; then what the receivers of ``invariants.sessions_end`` do comes on top.

    Args:
        user: The user, with the new values set.
        fields: The names of the fields that were set.
    """
    written = check_and_normalize(user, DEFAULT_DB_ALIAS, frozenset(fields))
    if written & invariants.VISIBLE:
        invalidate(sub_tag(user.pk))
    _update_of(written).run(id=user.pk, **{field: getattr(user, field) for field in written})


def give_role(user_id: uuid.UUID, role_id: int) -> bool:
    """Give a role and return whether it was not held. Two queries, one when it was. Call it inside a transaction.

    Args:
        user_id: The person.
        role_id: The primary key of the role, a group of Django's.
    """
    given = _GIVE_ROLE.run(user_id=user_id, group_id=role_id) > 0
    if given:
        invalidate(sub_tag(user_id))
    return given


def take_role(user_id: uuid.UUID, role_id: int) -> bool:
    """Take a role and return whether it was held. Two queries, one when it was not. Call it inside a transaction.

    Args:
        user_id: The person.
        role_id: The primary key of the role, a group of Django's.
    """
    taken = _TAKE_ROLE.run(user_id=user_id, group_id=role_id) > 0
    if taken:
        invalidate(sub_tag(user_id))
    return taken


@cache  # of the combinations staff may change at once: a hundred or so
def _update_of(fields: frozenset[str]) -> CompiledUpdate:
    columns = User._meta.concrete_fields  # noqa: SLF001 - documented by Django
    changes = {column.name: Param(column.name, column) for column in columns if column.name in fields}
    return CompiledUpdate(lambda: User.objects.filter(pk=_ID), **changes)


def _user(rows: list[list[Any]]) -> User | None:
    return User.from_db(DEFAULT_DB_ALIAS, _columns(), rows[0]) if rows else None
