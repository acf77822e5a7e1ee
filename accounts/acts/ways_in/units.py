"""Units of work of staff on what a person signs in with. Each asks for the caller's rights in its own transaction.

Passkeys, the app and identities have theirs in ``accounts.mfa`` and ``accounts.federation``.
"""

import uuid
from collections.abc import Callable

from accounts.access.rights import (
    CHANGE_USERS,
    DELETE_KEPT_DEVICES,
    rights_of,
    target_of,
)
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.mfa.kept_devices.services import KeptDeviceOut
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied

_NO_USER = "There is no user with this id."


def password_may_be_set(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> User:
    """Return the person whose password the caller may set, locked in a transaction that writes.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not change users, or not this one, or is that person.
        DeletionPending: The account is being deleted.
    """
    rights, user = target_of(actor_id, user_id, CHANGE_USERS)
    if user is None:
        raise NotFound(_NO_USER)
    if user_id == actor_id:
        raise PermissionDenied("This is your own account: POST /api/v1/access/password asks for its password.")
    rights.require_all_of(user)
    user_rules.refuse_being_deleted(user)
    return user


def set_password(*, actor_id: uuid.UUID, user_id: uuid.UUID, encoded: str) -> None:
    """Store the hash of a new password; every session ends, and the person is told.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        encoded: The hash.

    Raises:
        DomainError: What ``password_may_be_set`` raises.
    """
    user = password_may_be_set(actor_id=actor_id, user_id=user_id)
    user.password = encoded
    user_queries.change(user, ["password"])
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user_id)
    audit.record(Event.PASSWORD_CHANGED, actor_id=actor_id, user_id=user_id)


def seen[T](actor_id: uuid.UUID, user_id: uuid.UUID, *, right: str, find: Callable[[uuid.UUID], T]) -> T:
    """Return something of a person to a caller who may see it.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        right: What the caller has to hold.
        find: The query.

    Raises:
        PermissionDenied: The caller may not see it.
        NotFound: There is no such user.
    """
    rights_of(actor_id).require(right)
    if not User.objects.filter(pk=user_id).exists():
        raise NotFound(_NO_USER)
    return find(user_id)


def devices(user_id: uuid.UUID) -> list[KeptDeviceOut]:
    """Return a person's live kept devices, the newest first; none of them is the caller's."""
    return [
        KeptDeviceOut(one.pk, one.created_at, one.last_used_at, one.expires_at, one.user_agent, current=False)
        for one in kept_devices.of_user(user_id)
    ]


def end_device(*, actor_id: uuid.UUID, user_id: uuid.UUID, device_id: uuid.UUID) -> None:
    """End a kept device: the next sign-in there asks for the second factor.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: Whose it is.
        device_id: Which one.

    Raises:
        NotFound: There is no such user, or they have no such device.
        PermissionDenied: The caller may not do it, or not to this person.
    """
    rights, user = target_of(actor_id, user_id, DELETE_KEPT_DEVICES)
    if user is None:
        raise NotFound(_NO_USER)
    rights.require_above(user)
    if not KeptDevice.objects.filter(pk=device_id, user_id=user_id).delete()[0]:
        raise NotFound("This person has no such kept device.")
    audit.record(Event.DEVICE_FORGOTTEN, actor_id=actor_id, user_id=user_id)
