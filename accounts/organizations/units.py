"""Units of work on organisations by their members. Each judges what the caller's role allows in its own transaction.

To anybody who is no member there is no such organisation: ``NotFound``, as for an id that was never given.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_noop as _

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import EmailNotVerified
from accounts.invitations import queries as invitations
from accounts.invitations.errors import InvalidInvitation, InvitationExists
from accounts.invitations.models import Invitation
from accounts.organizations import changes, queries, roles, rules
from accounts.organizations.errors import AlreadyMember, InvitationOfAnother, TooManyMembers
from accounts.organizations.models import Membership, Organization
from accounts.organizations.outputs import (
    MemberOut,
    MembershipRow,
    OrganizationInvitationOut,
    OwnOrganizationOut,
    own_out,
)
from accounts.organizations.queries import membership, memberships_of
from accounts.organizations.roles import Act
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.core.ids import new_id

__all__ = ["membership", "memberships_of"]

_OTHERS: Final = _("Your role in this organisation does not allow this: ask one of its owners.")


def own(user_id: uuid.UUID, organization_id: uuid.UUID) -> MembershipRow:
    """Return the membership of a person in an organisation.

    Args:
        user_id: The person.
        organization_id: The organisation.

    Raises:
        NotFound: They are no member of such an organisation.
    """
    found = membership(user_id, organization_id)
    if found is None:
        raise NotFound(queries.NO_ORGANIZATION)
    return found


def require(actor_id: uuid.UUID, organization_id: uuid.UUID, act: Act) -> MembershipRow:
    """Return the caller's membership where its role allows an act.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        act: What they ask for.

    Raises:
        NotFound: They are no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    found = own(actor_id, organization_id)
    if not roles.may(found.role, act):
        raise PermissionDenied(_OTHERS)
    return found


def members(*, actor_id: uuid.UUID, organization_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[MemberOut]:
    """Return one page of members, the newest first.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        filters: The query of the list: cursor and page size.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    require(actor_id, organization_id, Act.SEE_MEMBERS)
    return queries.members_page(organization_id, filters)


def create_organization(*, user_id: uuid.UUID, name: str, organization_id: uuid.UUID | None = None) -> MembershipRow:
    """Make an organisation, whose owner its maker is.

    Args:
        user_id: The person.
        name: As it is shown, in its standard form.
        organization_id: The id that it gets; None for a new one.

    Raises:
        OrganizationsByStaff: People make none here.
        NotFound: There are none here, or the account is not active.
        TooManyOrganizations: They own, or are a member of, as many as anybody may.
    """
    rules.require_anybody_creates()
    said = {"name": name, "slug": rules.new_slug(name)}
    return changes.create(**said, owner_id=user_id, actor_id=user_id, organization_id=organization_id)


def make_own(*, user_id: uuid.UUID, name: str, organization_id: uuid.UUID | None = None) -> OwnOrganizationOut:
    """Do as ``create_organization``, and return what leaves: what a repeated request is answered with.

    Only for a proved address: who has none may be a stranger, and would write to others in the name of this service.

    Args:
        user_id: The person.
        name: As it is shown, in its standard form.
        organization_id: The id that it gets; None for a new one.

    Raises:
        EmailNotVerified: Nobody has proved the address of the account.
        DomainError: What ``create_organization`` raises.
    """
    rules.require_anybody_creates()
    if user_rules.locked(user_id).email_verified_at is None:
        raise EmailNotVerified
    return own_out(create_organization(user_id=user_id, name=name, organization_id=organization_id))


def rename_organization(*, actor_id: uuid.UUID, organization_id: uuid.UUID, name: str) -> MembershipRow:
    """Give an organisation another name; return the caller's membership.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        name: As it is shown, in its standard form.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    row, mine = _acting(actor_id, organization_id, Act.RENAME)
    changes.rename(row, name=name, actor_id=actor_id)
    return mine._replace(name=row.name)


def delete_organization(*, actor_id: uuid.UUID, organization_id: uuid.UUID) -> None:
    """Delete an organisation with all memberships.

    Args:
        actor_id: The caller.
        organization_id: The organisation.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    row, _mine = _acting(actor_id, organization_id, Act.DELETE)
    changes.delete(row, actor_id=actor_id)


def set_role(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID, role: str) -> None:
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
    row, mine = _acting(actor_id, organization_id, Act.MANAGE_MEMBERS)
    _require_over(mine.role, row, user_id)
    if not roles.is_over(mine.role, role):
        raise PermissionDenied(_OTHERS)
    changes.set_role(row, user_id=user_id, role=role, actor_id=actor_id)


def remove_member(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
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
    row, mine = _acting(actor_id, organization_id, Act.MANAGE_MEMBERS)
    _require_over(mine.role, row, user_id)
    changes.remove(row, user_id=user_id, actor_id=actor_id)


def leave(*, user_id: uuid.UUID, organization_id: uuid.UUID) -> None:
    """End one's own membership.

    Args:
        user_id: The member.
        organization_id: The organisation.

    Raises:
        NotFound: They are no member of such an organisation.
        LastOwner: No active owner would be left.
    """
    own(user_id, organization_id)
    changes.remove(queries.lock(organization_id), user_id=user_id, actor_id=user_id)


def invite(
    *, actor_id: uuid.UUID, organization_id: uuid.UUID, address: str, role: str, language: str = ""
) -> OrganizationInvitationOut:
    """Invite an address to an organisation. Whether an account has it is looked at for members of this one only.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        address: The address, in its standard form.
        role: What the person becomes.
        language: Of the message; "" for that of the installation.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it, or does not give that role.
        EmailNotVerified: Nobody has proved the address of the caller, who may be anybody.
        AlreadyMember: The address is that of a member.
        InvitationExists: One of this organisation to the address waits for an answer.
        TooManyMembers: As many invitations wait as may.
    """
    queries.lock_people(actor_id)  # the invitation refers to them
    row, mine = _acting(actor_id, organization_id, Act.INVITE)
    if not roles.is_over(mine.role, role):
        raise PermissionDenied(_OTHERS)
    if User.objects.filter(pk=actor_id, email_verified_at=None).exists():
        raise EmailNotVerified
    now, key = clock.now(), emails.fold(address)
    if Membership.objects.filter(organization_id=row.pk, user__email_key=key).exists():
        raise AlreadyMember
    unanswered = Invitation.objects.filter(organization_id=row.pk, accepted_at=None, withdrawn_at=None)
    standing = unanswered.filter(queries.stands(), expires_at__gt=now)
    if standing.filter(email_key=key).exists():
        raise InvitationExists
    invitations.end(unanswered.filter(email_key=key))  # it has expired, or who made it may not invite so any more
    if standing.count() >= rules.MOST_WAITING:
        raise TooManyMembers
    made = Invitation(
        id=new_id(),
        email=address,
        email_key=key,
        language=language,
        organization_id=row.pk,
        organization_role=role,
        invited_by_id=actor_id,
        created_at=now,
    )
    invitations.send(made, create=True)
    facts = {"organization": str(row.pk), "invitation": str(made.pk), "role": role}
    audit.record(Event.MEMBER_INVITED, actor_id=actor_id, details=facts)
    return _invitation_out(made)


def waiting_invitations(*, actor_id: uuid.UUID, organization_id: uuid.UUID) -> list[OrganizationInvitationOut]:
    """Return the invitations of an organisation that wait for an answer, the newest first.

    One is left out, as it opens nothing, while who made it may not invite so any more.

    Args:
        actor_id: The caller.
        organization_id: The organisation.

    Raises:
        NotFound: The caller is no member of such an organisation.
        PermissionDenied: Their role does not allow it.
    """
    require(actor_id, organization_id, Act.INVITE)
    found = invitations.waiting(clock.now()).filter(queries.stands(), organization_id=organization_id)
    return [_invitation_out(row) for row in found.order_by("-pk")[: rules.MOST_WAITING]]


def withdraw(*, actor_id: uuid.UUID, organization_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    """End an invitation: its link opens nothing any more.

    Also one that opens nothing now because who made it may not invite so: it ends, before they might again.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        invitation_id: One of its invitations that nobody has answered.

    Raises:
        NotFound: The caller is no member of such an organisation, or it has no such invitation.
        PermissionDenied: Their role does not allow it, or does not give the role of the invitation.
    """
    row, mine = _acting(actor_id, organization_id, Act.INVITE)
    unanswered = Invitation.objects.filter(organization_id=row.pk, accepted_at=None, withdrawn_at=None)
    found = unanswered.filter(pk=invitation_id).first()
    if found is None:
        raise NotFound(invitations.NO_INVITATION)
    if not roles.is_over(mine.role, found.organization_role):
        raise PermissionDenied(_OTHERS)
    invitations.end(unanswered.filter(pk=invitation_id))
    facts = {"organization": str(row.pk), "invitation": str(invitation_id)}
    audit.record(Event.MEMBER_INVITATION_WITHDRAWN, actor_id=actor_id, details=facts)


def accept(*, user_id: uuid.UUID, token: str) -> MembershipRow:
    """Accept an invitation with the account that somebody is signed in to.

    Args:
        user_id: The person; their address has to be the invited one, and proved.
        token: What the message brought.

    Raises:
        InvalidInvitation: It opens nothing, or is to no organisation.
        InvitationOfAnother: It is to another address.
        EmailNotVerified: Nobody has proved the address of the account: the page of the link lets its owner in.
        DomainError: What ``changes.join`` raises.
    """
    return changes.accept(*_invited(user_id, token))


def decline(*, user_id: uuid.UUID, token: str) -> uuid.UUID:
    """Decline an invitation with the account that somebody is signed in to; return the id of the invitation.

    Args:
        user_id: The person; their address has to be the invited one, and proved.
        token: What the message brought.

    Raises:
        InvalidInvitation: It opens nothing, or is to no organisation.
        InvitationOfAnother: It is to another address.
        EmailNotVerified: Nobody has proved the address of the account.
    """
    user, row = _invited(user_id, token)
    changes.decline(user, row)
    return row.pk


def _invited(user_id: uuid.UUID, token: str) -> tuple[User, Invitation]:
    """Return a person, locked, and what a token invites their proved address to. Raises as ``decline`` does."""
    user = user_rules.locked(user_id)
    row = invitations.opened(token)
    if row is None or row.organization_id is None or row.token_id is None:
        raise InvalidInvitation
    if row.email_key != user.email_key:
        raise InvitationOfAnother
    if user.email_verified_at is None:
        raise EmailNotVerified
    return user, row


def _acting(actor_id: uuid.UUID, organization_id: uuid.UUID, act: Act) -> tuple[Organization, MembershipRow]:
    """Return an organisation, locked, and the caller's membership, whose role allows an act.

    The role is asked before as well, so that nobody else makes others wait for the lock. Raises what ``require`` does.
    """
    require(actor_id, organization_id, act)
    row = queries.lock(organization_id)
    return row, require(actor_id, organization_id, act)


def _require_over(role: str, row: Organization, user_id: uuid.UUID) -> None:
    """Raise ``NotFound`` for who is no member, and ``PermissionDenied`` for one that ``role`` does not reach."""
    theirs = queries.role_of(user_id, row.pk)
    if theirs is None:
        raise NotFound(queries.NO_MEMBER)
    if not roles.is_over(role, theirs):
        raise PermissionDenied(_OTHERS)


def _invitation_out(row: Invitation) -> OrganizationInvitationOut:
    return OrganizationInvitationOut(
        row.pk, row.email, row.organization_role, row.invited_by_id, row.created_at, row.expires_at
    )
