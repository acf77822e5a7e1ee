"""What this room registers elsewhere: personal data, the first proof of an address, ends of accounts, invitations."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.signals import pre_delete

from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.invitations import queries as invitations
from accounts.invitations.errors import InvalidInvitation
from accounts.invitations.models import Invitation
from accounts.invitations.queries import Joining
from accounts.organizations import changes, queries, roles, rules
from accounts.organizations.errors import SoleOwner
from accounts.organizations.models import Membership, Organization
from accounts.privacy import export
from accounts.users import invariants
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.compiled import Param


def register() -> None:
    """Register all of it; called once, when the application is ready."""
    export.register("organizations", _memberships, Membership)
    first_proof.register(Membership, Fate.KEPT, "Without a proved address only staff give one, as they give roles.")
    user_rules.register_end(_forbid_end)
    invitations.register_joining(Joining(stands=queries.stands, standing=queries.standing, lock=_lock, join=_join))
    invariants.deactivated.connect(_deactivated, dispatch_uid="accounts.organizations.deactivated")
    pre_delete.connect(_person_deleted, sender=User, dispatch_uid="accounts.organizations.person_deleted")


def _lock(row: Invitation) -> None:
    """Lock the organisation of an invitation. Raises ``InvalidInvitation`` where it is gone."""
    if row.organization_id is None:
        raise InvalidInvitation
    try:
        queries.lock(row.organization_id)
    except NotFound as error:
        raise InvalidInvitation from error


def _join(user: User, row: Invitation) -> None:
    """Make the person of an accepted invitation a member. Raises ``InvalidInvitation`` where it stands no more."""
    if row.organization_id is None:
        raise InvalidInvitation
    try:
        changes.join(user_id=user.pk, organization_id=row.organization_id, role=row.organization_role)
    except NotFound as error:
        raise InvalidInvitation from error
    if not queries.standing([row]):  # asked under the lock that changes of members take
        raise InvalidInvitation


def _forbid_end(users: Iterable[User]) -> None:
    """Raise ``SoleOwner`` where the end of accounts leaves members without an active owner. Two queries.

    Their organisations are locked, so that of two owners who end their accounts at once one stays.
    """
    leaving = [user.pk for user in users]
    if not rules.enabled() or not leaving:
        return
    owned = Membership.objects.filter(user_id__in=leaving, role=roles.Role.OWNER)
    if not queries.lock_all(owned.values("organization_id")):
        return
    beside = Membership.objects.filter(organization_id=OuterRef("organization_id")).exclude(user_id__in=leaving)
    alone = Membership.objects.filter(
        ~Exists(beside.filter(role=roles.Role.OWNER, user__is_active=True)),
        Exists(beside),
        user_id__in=leaving,
        role=roles.Role.OWNER,
    )
    if alone.exists():
        raise SoleOwner


def _deactivated(user_ids: Sequence[uuid.UUID], **_: object) -> None:
    """Withdraw what these people have invited others to."""
    changes.withdraw_all_of(user_ids)


def _person_deleted(instance: User, **_: object) -> None:
    """Delete the organisations in which a person is alone. Two queries for none; without organisations here no query.

    All of the person's are locked first: the database takes memberships and invitations along in an order of its own,
    and who deletes such an organisation at the same time takes them in another one.
    """
    if not rules.enabled():
        return
    made_or_had = Invitation.objects.filter(Q(invited_by=instance) | Q(user=instance), organization__isnull=False)
    theirs = set(Membership.objects.filter(user=instance).values_list("organization_id", flat=True))
    theirs |= set(made_or_had.values_list("organization_id", flat=True))
    if not theirs:
        return
    queries.lock_all(theirs)
    changes.withdraw_all_of([instance.pk])
    others = Membership.objects.filter(organization_id=OuterRef("pk")).exclude(user_id=instance.pk)
    alone = Organization.objects.filter(~Exists(others), memberships__user_id=instance.pk)
    for organization_id in list(alone.values_list("pk", flat=True)):
        changes.delete(queries.lock(organization_id), actor_id=None)


def _memberships(person: Param) -> QuerySet[Any, Any]:
    """Return what the person is a member of."""
    rows = Membership.objects.filter(user_id=person).order_by("-pk")
    return rows.values("organization_id", "role", "created_at", name=F("organization__name"))
