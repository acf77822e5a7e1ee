"""Units of work on all second factors of a person: their reset by staff, and their end."""

import uuid
from functools import partial
from typing import Final

from django.db import models

from accounts.access.rights import REMOVE_FACTORS, target_of
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout import throttling
from accounts.mfa import factors
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users import rules
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.db.compiled import CompiledDelete, Param

_OF_USER: Final = Param("user_id", models.UUIDField())


def _rows_of(model: type[models.Model]) -> models.QuerySet[models.Model]:
    return models.QuerySet(model).filter(user_id=_OF_USER)


_NO_USER: Final = "There is no user with this id."
_FORGET: Final = tuple(CompiledDelete(partial(_rows_of, factor.model)) for factor in factors.FACTORS)


def reset(user_id: uuid.UUID, actor_id: uuid.UUID) -> bool:
    """Take every factor away, end every session and tell the person; return whether they had any.

    Args:
        user_id: The person whose factors go.
        actor_id: The member of staff.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: Without `REMOVE_FACTORS`, for one's own account, and for somebody who holds rights that
            ``actor_id`` does not: with a new password it would be a way to them.
        DeletionPending: The account is being deleted: the message would go to nobody.
    """
    rights, user = target_of(actor_id, user_id, REMOVE_FACTORS)
    if user is None:
        raise NotFound(_NO_USER)
    if user_id == actor_id:
        raise PermissionDenied("This is your own account: remove your factors there, or ask a colleague.")
    rights.require_all_of(user)
    rules.refuse_being_deleted(user)
    methods = remove_all(user_id)
    if not methods:
        return False
    user_queries.end_sessions(user_id)
    outbox.enqueue(Kind.MFA_RESET, recipient=user.email, user_id=user_id)
    audit.record(Event.MFA_RESET, actor_id=actor_id, user_id=user_id, details={"methods": list(methods)})
    return True


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
