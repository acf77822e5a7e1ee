"""What staff and machines do with organisations; async, keyword-only."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError

from accounts.access.listing import list_for_holder
from accounts.access.rights import VIEW_ORGANIZATIONS, for_holder
from accounts.organizations import queries
from accounts.organizations.administration import units
from accounts.organizations.errors import AlreadyMember
from accounts.organizations.outputs import MemberOut, OrganizationOut, OwnOrganizationOut
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

#: An organisation, as ``get_organization`` shows it, for changes under a condition.
EDITED: Final = Edited(show=units.organization_by_id, lock=queries.lock)


async def list_organizations(*, actor_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[OrganizationOut]:
    """Return one page of organisations, the newest first.

    Args:
        actor_id: The member of staff, or the machine.
        filters: Those of ``StaffOrganizationListInput``.

    Raises:
        PermissionDenied: The caller may not see them.
    """
    return await list_for_holder(actor_id, VIEW_ORGANIZATIONS, units.page, filters)


async def get_organization(*, actor_id: uuid.UUID, organization_id: uuid.UUID) -> OrganizationOut:
    """Return one organisation.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such organisation.
    """
    unit = units.organization_by_id
    return await database().read(for_holder, actor_id, VIEW_ORGANIZATIONS, unit, organization_id)


async def list_members(
    *, actor_id: uuid.UUID, organization_id: uuid.UUID, filters: Mapping[str, Any]
) -> Page[MemberOut]:
    """Return one page of members, the newest first.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.
        filters: Those of ``MemberListInput``.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such organisation.
    """
    return await database().read(for_holder, actor_id, VIEW_ORGANIZATIONS, units.members, organization_id, filters)


async def organizations_of(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> list[OwnOrganizationOut]:
    """Return a person's memberships.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such person.
    """
    return await database().read(for_holder, actor_id, VIEW_ORGANIZATIONS, units.organizations_of, user_id)


async def create_organization(*, actor_id: uuid.UUID, values: Mapping[str, Any]) -> OrganizationOut:
    """Make an organisation.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``StaffOrganizationInput``.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: (``slug``, ``owner``) It is taken; there is no such active person.
        TooManyOrganizations: The owner has as many as anybody may.
    """
    try:
        made = await database().write(units.create, actor_id=actor_id, values=values)
    except IntegrityError as error:  # another request has taken the short name at this moment
        raise ValidationFailed(errors=[FieldError("slug", "taken", units.TAKEN)]) from error
    get_logger().info("organization_created", organization=str(made.id), by=str(actor_id))
    return made


async def rename_organization(
    *, actor_id: uuid.UUID, organization_id: uuid.UUID, name: str | None = None
) -> OrganizationOut:
    """Give an organisation another name.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.
        name: As it is shown; None for the one it has.

    Raises:
        PermissionDenied: The caller may not.
        NotFound: There is no such organisation.
    """
    renamed = await database().write(units.rename, actor_id=actor_id, organization_id=organization_id, name=name)
    get_logger().info("organization_renamed", organization=str(organization_id), by=str(actor_id))
    return renamed


async def delete_organization(*, actor_id: uuid.UUID, organization_id: uuid.UUID) -> None:
    """Delete an organisation with all memberships.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.

    Raises:
        PermissionDenied: The caller may not.
        NotFound: There is no such organisation.
    """
    await database().write(units.delete, actor_id=actor_id, organization_id=organization_id)
    get_logger().info("organization_deleted", organization=str(organization_id), by=str(actor_id))


async def set_member(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID, role: str) -> None:
    """Make somebody a member, or give a member another role.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.
        user_id: The person.
        role: Of ``roles.Role``.

    Raises:
        PermissionDenied: The caller may not.
        NotFound: There is no such organisation, or no such active person.
        DomainError: What ``units.set_member`` raises.
    """
    whose = {"organization_id": organization_id, "user_id": user_id}
    try:
        await database().write(units.set_member, actor_id=actor_id, **whose, role=role)
    except IntegrityError as error:  # they have accepted an invitation at this moment
        raise AlreadyMember from error
    get_logger().info("member_set", organization=str(organization_id), user_id=str(user_id), by=str(actor_id))


async def remove_member(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """End a membership.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.
        user_id: The member.

    Raises:
        PermissionDenied: The caller may not.
        NotFound: There is no such organisation, or no such member.
        LastOwner: No active owner would be left.
    """
    whose = {"organization_id": organization_id, "user_id": user_id}
    await database().write(units.remove_member, actor_id=actor_id, **whose)
    get_logger().info("member_removed", organization=str(organization_id), user_id=str(user_id), by=str(actor_id))
