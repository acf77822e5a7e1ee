"""Units of work on all second factors of a person: their reset by staff, and their end."""

import uuid
from functools import partial
from typing import Final

from django.db import models

from accounts.access import ways_in
from accounts.access.reach import other_in_reach
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout import throttling
from accounts.mfa import factors
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.passkeys import units as passkey_units
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.db.compiled import CompiledDelete, Param

_OF_USER: Final = Param("user_id", models.UUIDField())


def _rows_of(model: type[models.Model]) -> models.QuerySet[models.Model]:
    return models.QuerySet(model).filter(user_id=_OF_USER)


_FORGET: Final = tuple(CompiledDelete(partial(_rows_of, factor.model)) for factor in factors.FACTORS)


def reset(user_id: uuid.UUID, actor_id: uuid.UUID) -> bool:
    """Take every factor away, end every session and tell the person; return whether they had any.

    A person with no other way in than a passkey gets the link by which they choose a password.

    Args:
        user_id: The person whose factors go.
        actor_id: The member of staff.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: Without `REMOVE_FACTORS`, for one's own account, and for somebody who holds rights that
            ``actor_id`` does not: with a new password it would be a way to them.
        DeletionPending: The account is being deleted: the message would go to nobody.
        LastWayIn: A passkey is the last way in, and no message would bring the person back.
    """
    user = other_in_reach(actor_id, user_id)
    was_last = ways_in.let_staff_take(user, kind=passkey_units.WAY_IN, gone=models.Q(user_id=user_id))
    methods = remove_all(user_id)
    if not methods:
        return False
    user_queries.end_sessions(user_id)
    if not was_last:  # else the message with the link is sent: no password signs them in
        outbox.enqueue(Kind.MFA_RESET, recipient=user.email, user_id=user_id)
    details = {"methods": list(methods), **({"was_last": True} if was_last else {})}
    audit.record(Event.MFA_RESET, actor_id=actor_id, user_id=user_id, details=details)
    return True


def left_without(people: models.QuerySet[User]) -> models.QuerySet[User]:
    """Return those of the people who could not sign in any more without their passkeys."""
    return ways_in.stranded(people, kind=passkey_units.WAY_IN, gone=models.Q(pk__isnull=False))


def nobody_to_tell(people: models.QuerySet[User]) -> models.QuerySet[User]:
    """Return those of them who could not be mailed how to get in again: ``reset`` refuses each."""
    return ways_in.unreachable(left_without(people))


def remove_all(user_id: uuid.UUID) -> tuple[str, ...]:
    """Take every factor away, one that is being set up too; return which methods there were.

    Six queries.
    """
    methods = factors.methods_of(user_id)
    for delete in _FORGET:
        delete.run(user_id=user_id)
    kept_devices.end_all_of(user_id)
    throttling.forgive_second_factor(user_id)
    return methods
