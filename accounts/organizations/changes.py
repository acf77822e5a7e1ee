"""What is done to organisations and memberships, by members or by staff: the rules that hold for both, and the trail.

The caller has judged who may. Members change under the lock of their organisation (``queries.lock``), so that of two
owners who leave at once one stays. Locks are taken in one order: people, organisation, invitations, their tokens.
"""

import uuid
from collections.abc import Sequence
from typing import Final

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.invitations import queries as invitations
from accounts.invitations.errors import InvalidInvitation
from accounts.invitations.models import Invitation
from accounts.organizations import queries, roles, rules
from accounts.organizations.errors import AlreadyMember, LastOwner, TooManyMembers, TooManyOrganizations
from accounts.organizations.models import Membership, Organization
from accounts.organizations.outputs import MembershipRow
from accounts.organizations.signals import membership_changed
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.core.ids import new_id

NO_PERSON: Final = "There is no active user with this id."


def create(
    *, name: str, slug: str, owner_id: uuid.UUID, actor_id: uuid.UUID, organization_id: uuid.UUID | None = None
) -> MembershipRow:
    """Make an organisation with its first owner.

    Args:
        name: As it is shown.
        slug: Its short name.
        owner_id: The person; locked until the transaction ends, so that nobody makes two at once beyond the limit.
        actor_id: Who makes it: that person, a member of staff, or a machine.
        organization_id: The id that it gets; None for a new one.

    Raises:
        NotFound: There is no such active person.
        TooManyOrganizations: They own, or are a member of, as many as anybody may.
        IntegrityError: The short name is taken.
    """
    _require_room(owner_id)
    owned = Membership.objects.filter(user_id=owner_id, role=roles.Role.OWNER).count()
    if owned >= rules.MOST_OWNED:
        raise TooManyOrganizations
    row = Organization(id=organization_id or new_id(), name=name, slug=slug)
    row.save(force_insert=True)
    made = _insert(row, owner_id, roles.Role.OWNER)
    facts = {"organization": str(row.pk), "role": made.role}
    audit.record(Event.ORGANIZATION_CREATED, actor_id=actor_id, user_id=owner_id, details=facts)
    return made


def rename(row: Organization, *, name: str, actor_id: uuid.UUID) -> None:
    """Give an organisation another name; the same one is no change.

    Args:
        row: The organisation, locked.
        name: As it is shown.
        actor_id: Who does it.
    """
    if name == row.name:
        return
    row.name = name
    row.save(update_fields=["name"])
    audit.record(Event.ORGANIZATION_RENAMED, actor_id=actor_id, details={"organization": str(row.pk)})


def delete(row: Organization, *, actor_id: uuid.UUID | None) -> None:
    """Delete an organisation; every membership ends, and no invitation opens anything any more.

    Args:
        row: The organisation, locked.
        actor_id: Who does it; None where it goes because nobody is left.
    """
    organization_id = row.pk
    members = list(Membership.objects.filter(organization_id=organization_id).values_list("user_id", flat=True))
    invitations.end(Invitation.objects.filter(organization_id=organization_id))
    _tell(organization_id, members, None)
    row.delete()
    facts = {"organization": str(organization_id), "members": len(members)}
    audit.record(Event.ORGANIZATION_DELETED, actor_id=actor_id, details=facts)


def accept(user: User, row: Invitation) -> MembershipRow:
    """Make the invited person a member, once.

    Args:
        user: The person, locked; their proved address is the invited one.
        row: The invitation, as it was found; its organisation is locked first.

    Raises:
        InvalidInvitation: It was used, withdrawn or sent anew at this moment, or its organisation is gone.
        DomainError: What ``join`` raises.
    """
    invitations.lock_joined(row)
    if not invitations.use(row):
        raise InvalidInvitation
    invitations.given_to(user, row, {}, Event.ORGANIZATION_JOINED)
    joined = queries.membership(user.pk, row.organization_id) if row.organization_id is not None else None
    if joined is None:
        raise InvalidInvitation
    return joined


def decline(user: User, row: Invitation) -> None:
    """End an invitation because the invited person does not want it; its link opens nothing any more.

    Args:
        user: The person, locked; their proved address is the invited one.
        row: The invitation, as it was found; its organisation is locked first.

    Raises:
        InvalidInvitation: It was used, withdrawn or sent anew at this moment, or its organisation is gone.
    """
    invitations.lock_joined(row)
    if not invitations.end(Invitation.objects.filter(pk=row.pk, token_id=row.token_id)):
        raise InvalidInvitation
    facts = {"organization": str(row.organization_id), "invitation": str(row.pk)}
    audit.record(Event.MEMBER_INVITATION_DECLINED, actor_id=user.pk, user_id=user.pk, details=facts)


def add(organization_id: uuid.UUID, *, user_id: uuid.UUID, role: str, actor_id: uuid.UUID) -> MembershipRow:
    """Make somebody a member without an invitation, as staff may.

    Args:
        organization_id: The organisation; it is locked after the person.
        user_id: The person.
        role: Of ``roles.Role``.
        actor_id: Who does it.

    Raises:
        DomainError: What ``join`` raises.
    """
    made = join(user_id=user_id, organization_id=organization_id, role=role)
    facts = {"organization": str(organization_id), "role": role}
    audit.record(Event.MEMBER_ADDED, actor_id=actor_id, user_id=user_id, details=facts)
    return made


def join(*, user_id: uuid.UUID, organization_id: uuid.UUID, role: str) -> MembershipRow:
    """Make somebody a member; what leaves it in the trail is the caller's.

    Args:
        user_id: The person; locked, before the organisation is.
        organization_id: The organisation.
        role: Of ``roles.Role``.

    Raises:
        NotFound: There is no such active person, or no such organisation.
        AlreadyMember: They are a member.
        TooManyOrganizations: They are a member of as many as anybody may.
        TooManyMembers: The organisation has as many as one may have.
    """
    _require_room(user_id)
    row = queries.lock(organization_id)
    if queries.role_of(user_id, organization_id) is not None:
        raise AlreadyMember
    if Membership.objects.filter(organization_id=organization_id).count() >= rules.MOST_MEMBERS:
        raise TooManyMembers
    return _insert(row, user_id, role)


def set_role(row: Organization, *, user_id: uuid.UUID, role: str, actor_id: uuid.UUID) -> None:
    """Give a member another role; the same one is no change. Their invitations with a role above it are withdrawn.

    Args:
        row: The organisation, locked.
        user_id: The member.
        role: Of ``roles.Role``.
        actor_id: Who does it.

    Raises:
        NotFound: They are no member.
        LastOwner: No active owner would be left.
    """
    before = _role(row, user_id)
    if role == before:
        return
    if role != roles.Role.OWNER:
        _keep_an_owner(row, user_id, before)
    Membership.objects.filter(organization_id=row.pk, user_id=user_id).update(role=role)
    _withdraw_beyond(row, user_id, role)
    _tell(row.pk, [user_id], role)
    facts = {"organization": str(row.pk), "role": role, "role_before": before}
    audit.record(Event.MEMBER_ROLE_CHANGED, actor_id=actor_id, user_id=user_id, details=facts)


def remove(row: Organization, *, user_id: uuid.UUID, actor_id: uuid.UUID, by_staff: bool = False) -> None:
    """End a membership; the invitations that the person has made are withdrawn.

    Args:
        row: The organisation, locked.
        user_id: The member.
        actor_id: Who does it; a member who does it to themselves leaves.
        by_staff: Whether it is staff, also to themselves.

    Raises:
        NotFound: They are no member.
        LastOwner: No active owner would be left.
    """
    role = _role(row, user_id)
    _keep_an_owner(row, user_id, role)
    Membership.objects.filter(organization_id=row.pk, user_id=user_id).delete()
    _withdraw_beyond(row, user_id, None)
    _tell(row.pk, [user_id], None)
    event = Event.ORGANIZATION_LEFT if actor_id == user_id and not by_staff else Event.MEMBER_REMOVED
    audit.record(event, actor_id=actor_id, user_id=user_id, details={"organization": str(row.pk), "role": role})


def _require_room(user_id: uuid.UUID) -> None:
    """Lock a person; raise what keeps them from one more membership."""
    user = user_queries.lock(user_id)
    if user is None or not user.is_active:
        raise NotFound(NO_PERSON)
    if Membership.objects.filter(user_id=user_id).count() >= rules.MOST_OF_A_PERSON:
        raise TooManyOrganizations


def _insert(row: Organization, user_id: uuid.UUID, role: str) -> MembershipRow:
    made = Membership(organization_id=row.pk, user_id=user_id, role=role)
    made.save(force_insert=True)
    return MembershipRow(row.pk, row.name, row.slug, str(role), made.created_at)


def _role(row: Organization, user_id: uuid.UUID) -> str:
    """Return the role of a member. Raises ``NotFound``."""
    role = queries.role_of(user_id, row.pk)
    if role is None:
        raise NotFound(queries.NO_MEMBER)
    return role


def _keep_an_owner(row: Organization, user_id: uuid.UUID, role: str) -> None:
    if role == roles.Role.OWNER and not queries.has_other_owner(row.pk, than=user_id):
        raise LastOwner


def _withdraw_beyond(row: Organization, user_id: uuid.UUID, role: str | None) -> None:
    """Withdraw the invitations of a person to roles that somebody of ``role`` may not give; None: all of them."""
    may_invite = role is not None and roles.may(role, roles.Act.INVITE)
    kept = [one for one in roles.Role if may_invite and role is not None and roles.is_over(role, one)]
    made = Invitation.objects.filter(organization_id=row.pk, invited_by_id=user_id)
    invitations.end(made.exclude(organization_role__in=kept))


def withdraw_all_of(user_ids: Sequence[uuid.UUID]) -> None:
    """Withdraw the invitations that these people have made and nobody has answered: they are inactive from now on.

    Nothing revives with them when they are let in again. Also where there are no organisations here: there may be some
    again. Two queries where there are none, and locks in the one order.

    Args:
        user_ids: The people.
    """
    queries.lock_people(*user_ids)  # who invites at this moment has done so, or finds that they are inactive
    made = Invitation.objects.filter(
        invited_by__in=user_ids, organization__isnull=False, accepted_at=None, withdrawn_at=None
    )
    of = set(made.order_by().values_list("organization_id", flat=True))
    if not of:
        return
    queries.lock_all(of)
    rows = list(made.order_by("pk").values_list("pk", "organization_id", "invited_by_id"))
    invitations.end(made)
    for invitation_id, organization_id, maker_id in rows:
        facts = {"organization": str(organization_id), "invitation": str(invitation_id), "invited_by": str(maker_id)}
        audit.record(Event.MEMBER_INVITATION_WITHDRAWN, details=facts)


def _tell(organization_id: uuid.UUID, user_ids: list[uuid.UUID], role: str | None) -> None:
    membership_changed.send(sender=Membership, organization_id=organization_id, user_ids=user_ids, role=role)
