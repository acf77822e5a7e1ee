"""What people do with their organisations over HTTP and on pages; async, keyword-only."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError

from accounts.invitations import queries as invitation_queries
from accounts.invitations.errors import InvalidInvitation, InvitationExists
from accounts.lockout import rate_limits
from accounts.organizations import queries, rules, units
from accounts.organizations.errors import AlreadyMember
from accounts.organizations.offers import queries as offers
from accounts.organizations.outputs import MemberOut, MembershipRow, OrganizationInvitationOut, OwnOrganizationOut
from accounts.organizations.roles import Act
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


async def memberships_of(*, user_id: uuid.UUID) -> list[MembershipRow]:
    """Return a person's memberships, by the name of the organisation.

    Args:
        user_id: The person.
    """
    return await database().read(queries.memberships_of, user_id)


async def membership(*, user_id: uuid.UUID, organization_id: uuid.UUID) -> MembershipRow:
    """Return a person's membership in an organisation.

    Args:
        user_id: The person.
        organization_id: The organisation.

    Raises:
        NotFound: They are no member of such an organisation.
    """
    return await database().read(units.own, user_id, organization_id)


async def members(*, actor_id: uuid.UUID, organization_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[MemberOut]:
    """Return one page of members, the newest first.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        filters: Those of ``MemberListInput``.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    return await database().read(units.members, actor_id=actor_id, organization_id=organization_id, filters=filters)


async def make_by_click(*, user_id: uuid.UUID, name: str, click: uuid.UUID) -> uuid.UUID:
    """Make an organisation, whose owner its maker is; return its id, or of a second click the id of the first one's.

    Args:
        user_id: The person.
        name: As it is shown, in its standard form.
        click: What the request of the form is known by (``second_clicks``).

    Raises:
        DomainError: What ``make_own`` raises.
    """
    made = new_id()
    led_to = await database().write(offers.make_by_click, user_id=user_id, name=name, organization_id=made, click=click)
    if led_to == made:
        get_logger().info("organization_created", organization=str(made), by=str(user_id))
    return led_to


async def make_own(*, user_id: uuid.UUID, name: str) -> OwnOrganizationOut:
    """Make an organisation, whose owner its maker is; return what leaves.

    Args:
        user_id: The person.
        name: As it is shown, in its standard form.

    Raises:
        OrganizationsByStaff: People make none here.
        NotFound: There are none here.
        EmailNotVerified: Nobody has proved the address of the account.
        TooManyOrganizations: They own, or are a member of, as many as anybody may.
    """
    made = await database().write(units.make_own, user_id=user_id, name=name)
    get_logger().info("organization_created", organization=str(made.id), by=str(user_id))
    return made


async def rename_organization(*, actor_id: uuid.UUID, organization_id: uuid.UUID, name: str) -> MembershipRow:
    """Give an organisation another name; return the caller's membership.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        name: As it is shown, in its standard form.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    renamed = await database().write(
        units.rename_organization, actor_id=actor_id, organization_id=organization_id, name=name
    )
    get_logger().info("organization_renamed", organization=str(organization_id), by=str(actor_id))
    return renamed


async def delete_organization(*, actor_id: uuid.UUID, organization_id: uuid.UUID) -> None:
    """Delete an organisation with all memberships.

    Args:
        actor_id: The caller.
        organization_id: The organisation.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    await database().write(units.delete_organization, actor_id=actor_id, organization_id=organization_id)
    get_logger().info("organization_deleted", organization=str(organization_id), by=str(actor_id))


async def set_role(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID, role: str) -> None:
    """Give a member another role.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        user_id: The member.
        role: Of ``roles.Role``.

    Raises:
        NotFound: The caller, or ``user_id``, is no member of such an organisation.
        PermissionDenied: The caller's role does not reach the member, or does not give that role.
        LastOwner: No active owner would be left.
    """
    whose = {"organization_id": organization_id, "user_id": user_id}
    await database().write(units.set_role, actor_id=actor_id, **whose, role=role)
    get_logger().info("member_role_changed", organization=str(organization_id), user_id=str(user_id), by=str(actor_id))


async def remove_member(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """End the membership of somebody.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        user_id: The member.

    Raises:
        NotFound: The caller, or ``user_id``, is no member of such an organisation.
        PermissionDenied: The caller's role does not reach the member.
        LastOwner: No active owner would be left.
    """
    whose = {"organization_id": organization_id, "user_id": user_id}
    await database().write(units.remove_member, actor_id=actor_id, **whose)
    get_logger().info("member_removed", organization=str(organization_id), user_id=str(user_id), by=str(actor_id))


async def leave(*, user_id: uuid.UUID, organization_id: uuid.UUID) -> None:
    """End one's own membership.

    Args:
        user_id: The member.
        organization_id: The organisation.

    Raises:
        NotFound: They are no member of such an organisation.
        LastOwner: No active owner would be left.
    """
    await database().write(units.leave, user_id=user_id, organization_id=organization_id)
    get_logger().info("organization_left", organization=str(organization_id), user_id=str(user_id))


async def invite(
    *,
    actor_id: uuid.UUID,
    organization_id: uuid.UUID,
    address: str,
    role: str,
    language: str = "",
    client_address: str = "",
) -> OrganizationInvitationOut:
    """Invite an address to an organisation, by a message. What it answers does not depend on who has an account.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        address: The address, in its standard form.
        role: What the person becomes.
        language: Of the message; "" for that of the installation.
        client_address: The client's, as whose the message is counted too; several accounts may be one person's.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it, or does not give that role.
        Throttled: Too many messages were sent to the address, by the caller, or from their network.
        DomainError: What ``units.invite`` raises.
    """
    await database().read(units.require, actor_id, organization_id, Act.INVITE)
    await rate_limits.admit_mail(kind="invitation", email=address, address=client_address, user_id=actor_id)
    try:
        made = await database().write(
            units.invite,
            actor_id=actor_id,
            organization_id=organization_id,
            address=address,
            role=role,
            language=language,
        )
    except IntegrityError as error:  # another request has invited it at this moment
        raise InvitationExists from error
    get_logger().info("member_invited", organization=str(organization_id), invitation=str(made.id), by=str(actor_id))
    return made


async def waiting_invitations(*, actor_id: uuid.UUID, organization_id: uuid.UUID) -> list[OrganizationInvitationOut]:
    """Return the invitations of an organisation that wait for an answer, the newest first.

    Args:
        actor_id: The caller.
        organization_id: The organisation.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    return await database().read(units.waiting_invitations, actor_id=actor_id, organization_id=organization_id)


async def withdraw(*, actor_id: uuid.UUID, organization_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    """End an invitation: its link opens nothing any more.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        invitation_id: One of its invitations that waits for an answer.

    Raises:
        NotFound: The caller is no member of such an organisation, or it has no such invitation.
        PermissionDenied: Their role does not allow it, or does not give the role of the invitation.
    """
    which = {"organization_id": organization_id, "invitation_id": invitation_id}
    await database().write(units.withdraw, actor_id=actor_id, **which)
    get_logger().info("member_invitation_withdrawn", invitation=str(invitation_id), by=str(actor_id))


async def accept(*, user_id: uuid.UUID, token: str, address: str = "") -> MembershipRow:
    """Accept an invitation with the account that somebody is signed in to.

    Args:
        user_id: The person; their address has to be the invited one, and proved.
        token: What the message brought.
        address: The client's.

    Raises:
        Throttled: In place of ``InvalidInvitation``, after too many tokens that open nothing.
        DomainError: What ``units.accept`` raises.
    """
    await _require_opened(token, address)
    try:
        joined = await database().write(units.accept, user_id=user_id, token=token)
    except IntegrityError as error:  # staff have made them a member at this moment
        raise AlreadyMember from error
    get_logger().info("organization_joined", organization=str(joined.organization_id), user_id=str(user_id))
    return joined


async def decline(*, user_id: uuid.UUID, token: str, address: str = "") -> None:
    """Decline an invitation with the account that somebody is signed in to; it opens nothing any more.

    Args:
        user_id: The person; their address has to be the invited one, and proved.
        token: What the message brought.
        address: The client's.

    Raises:
        Throttled: In place of ``InvalidInvitation``, after too many tokens that open nothing.
        DomainError: What ``units.decline`` raises.
    """
    await _require_opened(token, address)
    declined = await database().write(units.decline, user_id=user_id, token=token)
    get_logger().info("member_invitation_declined", invitation=str(declined), user_id=str(user_id))


async def _require_opened(token: str, address: str) -> None:
    """Raise what refuses a token that opens nothing: ``Throttled`` after too many, else ``InvalidInvitation``."""
    rules.require_enabled()
    if await database().read(invitation_queries.opened, token) is None:
        await rate_limits.admit(rate_limits.EMAIL_TOKEN, address=address)
        raise InvalidInvitation
