"""What staff and machines do with what a person signs in with; async, keyword-only."""

import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from accounts.access.rights import VIEW_KEPT_DEVICES, VIEW_USERS
from accounts.acts.ways_in import units
from accounts.federation import queries as federation
from accounts.federation import removal as identities
from accounts.mfa import factors
from accounts.mfa.passkeys import removal as passkeys
from accounts.passwords import hashing as passwords
from accounts.passwords.breached import require_unbreached
from accounts.passwords.policy import require_policy
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


class Seen[T](NamedTuple):
    """Something that staff may see of a person: the right for it, and the query that finds it."""

    right: str
    find: Callable[[uuid.UUID], T]


class Taken(NamedTuple):
    """Something that staff take away: the unit of work, which asks for the rights, and the event of the log."""

    unit: Callable[..., object]
    event: str


FACTORS: Final = Seen(VIEW_USERS, factors.overview)
IDENTITIES: Final = Seen(VIEW_USERS, lambda user_id: list(federation.identities(user_id)))
DEVICES: Final = Seen(VIEW_KEPT_DEVICES, units.devices)
PASSKEY: Final = Taken(passkeys.remove_by_staff, "passkey_removed_by_staff")
IDENTITY: Final = Taken(identities.unlink_by_staff, "identity_removed_by_staff")
DEVICE: Final = Taken(units.end_device, "kept_device_ended_by_staff")


async def set_password(*, actor_id: uuid.UUID, user_id: uuid.UUID, new_password: str) -> None:
    """Set a person's password; what would be refused is, before the hash is paid for.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        new_password: As it was sent.

    Raises:
        ValidationFailed: (``new_password``) By the policy or the list of breached ones.
        Overloaded: The hash pool is full.
        DomainError: What ``units.password_may_be_set`` raises.
    """
    person = await database().write(units.password_may_be_set, actor_id=actor_id, user_id=user_id)
    require_policy(new_password, email=person.email, name=person.name, field="new_password")
    await require_unbreached(new_password, field="new_password")
    encoded = await passwords.hash_password(new_password)
    await database().write(units.set_password, actor_id=actor_id, user_id=user_id, encoded=encoded)
    get_logger().info("password_set_by_staff", user_id=str(user_id), by=str(actor_id))


async def see[T](what: Seen[T], *, actor_id: uuid.UUID, user_id: uuid.UUID) -> T:
    """Return something of a person.

    Args:
        what: One of the above.
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: The caller may not see it.
        NotFound: There is no such user.
    """
    return await database().read(units.seen, actor_id, user_id, right=what.right, find=what.find)


async def take(what: Taken, *, actor_id: uuid.UUID, user_id: uuid.UUID, **which: uuid.UUID) -> None:
    """Take something away from a person.

    Args:
        what: One of the above.
        actor_id: The member of staff, or the machine.
        user_id: The person.
        which: Its id, by the name that the unit of work has for it.

    Raises:
        DomainError: What the unit of work raises.
    """
    await database().write(what.unit, actor_id=actor_id, user_id=user_id, **which)
    get_logger().info(what.event, user_id=str(user_id), by=str(actor_id))
