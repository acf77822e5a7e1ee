"""What staff and machines do with what a person signs in with; async, keyword-only."""

import uuid

from accounts.acts.ways_in import units
from accounts.federation import removal as identities
from accounts.federation.outputs import IdentityOut
from accounts.mfa.kept_devices.services import KeptDeviceOut
from accounts.mfa.outputs import MfaOut
from accounts.mfa.passkeys import removal as passkeys
from accounts.passwords import hashing as passwords
from accounts.passwords.breached import require_unbreached
from accounts.passwords.policy import require_policy
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


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
    _log("password_set_by_staff", user_id, actor_id)


async def factors(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> MfaOut:
    """Return a person's second factors.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: The caller may not see it.
        NotFound: There is no such user.
    """
    return await database().read(units.factors_of, actor_id=actor_id, user_id=user_id)


async def remove_passkey(*, actor_id: uuid.UUID, user_id: uuid.UUID, passkey_id: uuid.UUID) -> None:
    """Take a passkey away.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        passkey_id: Which passkey.

    Raises:
        DomainError: What ``passkeys.removal.remove_by_staff`` raises.
    """
    await database().write(passkeys.remove_by_staff, actor_id=actor_id, user_id=user_id, passkey_id=passkey_id)
    _log("passkey_removed_by_staff", user_id, actor_id)


async def list_identities(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> list[IdentityOut]:
    """Return who a person is at other providers, the oldest first.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: The caller may not see it.
        NotFound: There is no such user.
    """
    return await database().read(units.identities_of, actor_id=actor_id, user_id=user_id)


async def remove_identity(*, actor_id: uuid.UUID, user_id: uuid.UUID, identity_id: uuid.UUID) -> None:
    """Take an identity away.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        identity_id: Which identity.

    Raises:
        DomainError: What ``federation.removal.unlink_by_staff`` raises.
    """
    await database().write(identities.unlink_by_staff, actor_id=actor_id, user_id=user_id, identity_id=identity_id)
    _log("identity_removed_by_staff", user_id, actor_id)


async def list_devices(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> list[KeptDeviceOut]:
    """Return a person's kept devices, the newest first; none of them is the caller's.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: The caller may not see it.
        NotFound: There is no such user.
    """
    found = await database().read(units.devices_of, actor_id=actor_id, user_id=user_id)
    return [
        KeptDeviceOut(one.pk, one.created_at, one.last_used_at, one.expires_at, one.user_agent, current=False)
        for one in found
    ]


async def end_device(*, actor_id: uuid.UUID, user_id: uuid.UUID, device_id: uuid.UUID) -> None:
    """End a kept device.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        device_id: Which device.

    Raises:
        DomainError: What ``units.end_device`` raises.
    """
    await database().write(units.end_device, actor_id=actor_id, user_id=user_id, device_id=device_id)
    _log("kept_device_ended_by_staff", user_id, actor_id)


def _log(event: str, user_id: uuid.UUID, actor_id: uuid.UUID) -> None:
    get_logger().info(event, user_id=str(user_id), by=str(actor_id))
