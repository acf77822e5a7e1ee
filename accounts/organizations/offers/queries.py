"""What the pages of a person's organisations ask for: a new one, one member, and the invitations to the person.

Of somebody who is signed in the proved address stands for the link of the message.
"""

import uuid
from datetime import datetime
from typing import NamedTuple

from accounts.invitations import queries as invitations
from accounts.invitations.errors import InvalidInvitation
from accounts.invitations.models import Invitation
from accounts.organizations import changes, queries, rules
from accounts.organizations.models import Membership
from accounts.organizations.outputs import MemberOut, MembershipRow
from accounts.organizations.roles import Act
from accounts.organizations.units import make_own, require
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.http import second_clicks


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

    Two queries.
    """
    user = User.objects.filter(pk=user_id, is_active=True, email_verified_at__isnull=False).only("email_key").first()
    if user is None or not rules.enabled():
        return []
    waiting = invitations.waiting(clock.now()).filter(email_key=user.email_key, organization__isnull=False)
    rows = waiting.filter(queries.stands()).select_related("organization").order_by("-pk")[: rules.MOST_OF_A_PERSON]
    return [
        Offer(row.pk, row.organization.name, row.organization_role, row.expires_at)
        for row in rows
        if row.organization is not None
    ]


def make_by_click(*, user_id: uuid.UUID, name: str, organization_id: uuid.UUID, click: uuid.UUID) -> uuid.UUID:
    """Make an organisation, where the first of two clicks has not made it; return the id of the one there is then.

    Args:
        user_id: The person.
        name: As it is shown, in its standard form.
        organization_id: The id that a new one gets.
        click: What the request of the form is known by.

    Raises:
        DomainError: What ``units.make_own`` raises.
    """
    led_to = second_clicks.claim(click, organization_id)
    if led_to == organization_id:
        make_own(user_id=user_id, name=name, organization_id=organization_id)
    return led_to


def accept(*, user_id: uuid.UUID, invitation_id: uuid.UUID) -> MembershipRow:
    """Accept an invitation to the proved address of somebody who is signed in.

    Args:
        user_id: The person.
        invitation_id: An invitation to an organisation.

    Raises:
        InvalidInvitation: None with this id waits for them: it was answered, withdrawn, sent anew or is another's, or
            who made it may not invite so any more.
        DomainError: What ``changes.join`` raises.
    """
    return changes.accept(*_of(user_id, invitation_id))


def decline(*, user_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    """Decline an invitation to the proved address of somebody who is signed in.

    Args:
        user_id: The person.
        invitation_id: An invitation to an organisation.

    Raises:
        InvalidInvitation: As for ``accept``.
    """
    changes.decline(*_of(user_id, invitation_id))


def _of(user_id: uuid.UUID, invitation_id: uuid.UUID) -> tuple[User, Invitation]:
    """Return a person, locked, and what they are invited to by their proved address. Raises ``InvalidInvitation``."""
    rules.require_enabled()
    user = user_rules.locked(user_id)
    waiting = invitations.waiting(clock.now()).filter(
        pk=invitation_id, email_key=user.email_key, organization__isnull=False
    )
    row = waiting.filter(queries.stands()).first() if user.email_verified_at is not None else None
    if row is None:
        raise InvalidInvitation
    return user, row
