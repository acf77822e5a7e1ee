"""What units of work ask of a user's row by its id: each one statement, compiled once."""

import uuid
from functools import cache
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models import F

from accounts import names
from accounts.models import User
from ironauth.infrastructure import clock
from ironauth.infrastructure.fixed_queries import FixedSelect, FixedUpdate, Given
from ironauth.infrastructure.invalidation import invalidate, sub_tag

_ID: Final = Given("id", models.UUIDField())


@cache
def _columns() -> tuple[str, ...]:
    return tuple(field.attname for field in User._meta.concrete_fields)  # noqa: SLF001 - documented by Django


def _whole_row() -> "models.QuerySet[User, Any]":
    return User.objects.filter(pk=_ID).order_by().values_list(*_columns())


_FIND: Final = FixedSelect(_whole_row)
_LOCK: Final = FixedSelect(lambda: _whole_row().select_for_update())
_RENAME: Final = FixedUpdate(
    lambda: User.objects.filter(pk=_ID, is_active=True),
    name=Given("name", models.CharField()),
    updated_at=Given("now", models.DateTimeField()),
)
_END_SESSIONS: Final = FixedUpdate(
    lambda: User.objects.filter(pk=_ID),
    session_epoch=F("session_epoch") + 1,
    updated_at=Given("now", models.DateTimeField()),
)
_END_OWN_SESSIONS: Final = FixedUpdate(
    lambda: User.objects.filter(pk=_ID, is_active=True),
    session_epoch=F("session_epoch") + 1,
    updated_at=Given("now", models.DateTimeField()),
)
_ROLE_NAMES: Final = FixedSelect(lambda: User.objects.filter(pk=_ID).order_by().values_list("groups__name"))


def find(user_id: uuid.UUID) -> User | None:
    """Return the user, if there is one. One query."""
    return _user(_FIND.rows(id=user_id))


def lock(user_id: uuid.UUID) -> User | None:
    """Return the user, if there is one, locked until the transaction ends. One query."""
    return _user(_LOCK.rows(id=user_id))


def role_names(user_id: uuid.UUID) -> tuple[str, ...]:
    """Return the names of the user's roles. One query."""
    return tuple(name for (name,) in _ROLE_NAMES.rows(id=user_id) if name is not None)


def rename(user_id: uuid.UUID, name: str) -> bool:
    """Set the name of an active user and invalidate them; return whether there is one. Two queries."""
    if not _RENAME.run(id=user_id, name=names.normalise(name), now=clock.now()):
        return False
    invalidate(sub_tag(user_id))
    return True


def end_sessions(user_id: uuid.UUID, *, if_active: bool = False) -> bool:
    """Raise the session epoch, which ends every session, and invalidate the user; return whether there is one.

    Two queries.
    """
    if not (_END_OWN_SESSIONS if if_active else _END_SESSIONS).run(id=user_id, now=clock.now()):
        return False
    invalidate(sub_tag(user_id))
    return True


def _user(rows: list[list[Any]]) -> User | None:
    return User.from_db(DEFAULT_DB_ALIAS, _columns(), rows[0]) if rows else None
