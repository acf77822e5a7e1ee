"""What the pages of a person's organisations ask for: one member, and the invitations that wait for the person.

Of somebody who is signed in the proved address stands for the link of the message.
"""

import uuid
from datetime import datetime
from typing import NamedTuple

from accounts.audit.recording import Event
from accounts.invitations import queries as invitations
from accounts.invitations.errors import InvalidInvitation
from accounts.invitations.models import Invitation
from accounts.organizations import queries, rules
from accounts.organizations.models import Membership
from accounts.organizations.outputs import MemberOut, MembershipRow
from accounts.organizations.registration import stands
from accounts.organizations.roles import Act
from accounts.organizations.units import own, require
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound

_NONE: str = "There is no invitation with this id that waits for you."


def member(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID) -> MemberOut:
    """Return one member of an organisation. Two queries.

    Args:
        actor_id: The caller.
        organization_id: The organisation.
        user_id: The member.

    Raises:
        NotFound: One of the two is no member of such an organisation.
        PermissionDenied: The caller's role shows no members.
    """
    require(actor_id, organization_id, Act.SEE_MEMBERS)
    found = Membership.objects.filter(organization_id=organization_id, user_id=user_id)
    row = found.values_list("user_id", "user__email", "user__name", "role", "created_at").first()
    if row is None:
        raise NotFound(queries.NO_MEMBER)
    return MemberOut(*row)


class Offer(NamedTuple):
    """An invitation to an organisation, as the invited person sees it."""

    id: uuid.UUID
    name: str
    role: str
    expires_at: datetime


def waiting_for(user_id: uuid.UUID) -> list[Offer]:
    """Return the invitations to organisations that a person can accept, the newest first; none to an unproved address.

    Two queries, and one for each invitation.
    """
    user = User.objects.filter(pk=user_id, is_active=True, email_verified_at__isnull=False).only("email_key").first()
    if user is None or not rules.enabled():
        return []
    found = invitations.waiting(clock.now()).filter(email_key=user.email_key, organization__isnull=False)
    rows = found.select_related("organization").order_by("-pk")[: rules.MOST_OF_A_PERSON]
    return [
        Offer(row.pk, row.organization.name, row.organization_role, row.expires_at)
        for row in rows
        if row.organization is not None and stands(row)
    ]


def accept(*, user_id: uuid.UUID, invitation_id: uuid.UUID) -> MembershipRow:
    """Accept an invitation to the proved address of somebody who is signed in.

    Args:
        user_id: The person.
        invitation_id: An invitation to an organisation.

    Raises:
        NotFound: None with this id waits for them.
        InvalidInvitation: It was accepted, withdrawn or sent anew at this moment, or who made it may invite no more.
        DomainError: What ``changes.join`` raises.
    """
    rules.require_enabled()
    user = user_rules.locked(user_id)
    row = _of(user, invitation_id)
    if row.organization_id is None or not stands(row) or not invitations.use(row):
        raise InvalidInvitation
    invitations.given_to(user, row, {}, Event.ORGANIZATION_JOINED)
    return own(user_id, row.organization_id)


def _of(user: User, invitation_id: uuid.UUID) -> Invitation:
    """Return an invitation to an organisation that is to this person's proved address; raise ``NotFound`` otherwise."""
    found = invitations.waiting(clock.now()).filter(
        pk=invitation_id, email_key=user.email_key, organization__isnull=False
    )
    row = found.first() if user.email_verified_at is not None else None
    if row is None:
        raise NotFound(_NONE)
    return row
