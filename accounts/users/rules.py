"""What holds for every account, whatever is done to it: an act that would break it is refused."""

import uuid
from collections.abc import Callable, Iterable
from typing import Final

from django.utils.translation import gettext_noop as _

from accounts.errors import DeletionPending, LastSuperuser, PasswordChanged
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotAuthenticated

#: What forbids that accounts end, beside the rule of the last superuser; the rooms that know it register it.
_forbids_end: Final[list[Callable[[Iterable[User]], None]]] = []


def register_end(forbids: Callable[[Iterable[User]], None]) -> None:
    """Have a rule asked before somebody deletes accounts.

    Args:
        forbids: Gets the accounts, and raises an error where they may not end.
    """
    if forbids not in _forbids_end:
        _forbids_end.append(forbids)


def require_deletable(users: Iterable[User]) -> None:
    """Raise what forbids that these accounts end together.

    Args:
        users: The accounts, locked.

    Raises:
        LastSuperuser: Nobody could run the system.
        DomainError: What another room has registered.
    """
    leaving = list(users)
    keep_a_superuser(without=leaving)
    for forbids in _forbids_end:
        forbids(leaving)


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
        raise NotAuthenticated(_("This session has ended: sign in again."))
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
