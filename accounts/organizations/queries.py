"""What units of any room ask about memberships, inside their transaction; of hot paths, compiled once."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_noop as _

from accounts.invitations.models import Invitation
from accounts.organizations import roles, rules
from accounts.organizations.models import Membership, Organization
from accounts.organizations.outputs import MemberOut, MembershipRow
from accounts.users.models import User
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.compiled import CompiledSelect, Param

#: The only order there is of the list of members; part of each cursor.
MEMBERS_ORDERING: Final = "member -since"
NO_ORGANIZATION: Final = _("There is no organization with this id.")
NO_MEMBER: Final = _("There is no member with this id.")
_COLUMNS: Final = ("organization_id", "organization__name", "organization__slug", "role", "created_at")
_USER: Final = Param("user_id", models.UUIDField())
_OF_PERSON: Final = CompiledSelect(
    lambda: (
        Membership.objects.filter(user_id=_USER, user__is_active=True)
        .order_by("organization__name", "organization_id")
        .values_list(*_COLUMNS)[: rules.MOST_OF_A_PERSON]
    )
)
_ONE: Final = CompiledSelect(
    lambda: (
        Membership.objects.filter(
            user_id=_USER, user__is_active=True, organization_id=Param("organization_id", models.UUIDField())
        )
        .order_by()
        .values_list(*_COLUMNS)
    )
)


def memberships_of(user_id: uuid.UUID) -> list[MembershipRow]:
    """Return the memberships of an active person, by the name of the organisation; none where there are none here.

    One query.
    """
    return [MembershipRow(*row) for row in _OF_PERSON.rows(user_id=user_id)] if rules.enabled() else []


def membership(user_id: uuid.UUID, organization_id: uuid.UUID) -> MembershipRow | None:
    """Return the membership of an active person in an organisation, if there is one. One query.

    Args:
        user_id: The person.
        organization_id: The organisation.
    """
    rows = _ONE.rows(user_id=user_id, organization_id=organization_id) if rules.enabled() else []
    return MembershipRow(*rows[0]) if rows else None


def row_of(one: Membership) -> MembershipRow:
    """Return a membership as other rooms read it; its organisation has been read with it."""
    return MembershipRow(one.organization_id, one.organization.name, one.organization.slug, one.role, one.created_at)


def lock(organization_id: uuid.UUID) -> Organization:
    """Return an organisation, locked until the transaction ends: whatever changes its members does it first.

    Raises:
        NotFound: There is none with this id.
    """
    row = Organization.objects.select_for_update().filter(pk=organization_id).first()
    if row is None:
        raise NotFound(NO_ORGANIZATION)
    return row


def lock_all(ids: Iterable[uuid.UUID] | QuerySet[Any, Any]) -> list[uuid.UUID]:
    """Lock organisations until the transaction ends, in one order; return which there are. One query.

    Args:
        ids: Their ids, or a query of them.
    """
    rows = Organization.objects.select_for_update().filter(pk__in=ids).order_by("pk")
    return list(rows.values_list("pk", flat=True))


def lock_people(*user_ids: uuid.UUID) -> None:
    """Lock people until the transaction ends, in one order, before any organisation is locked. One query.

    What refers to them and is stored under the lock of an organisation (an invitation, an entry of the admin's log)
    would wait for them otherwise, while who holds them waits for the organisation.

    Args:
        user_ids: Who they are.
    """
    people = User.objects.select_for_update(no_key=True).filter(pk__in=user_ids).order_by("pk")
    list(people.values_list("pk", flat=True))


def stands() -> Q:
    """Return the condition of invitations to organisations whose makers may still invite with their roles."""
    if not rules.enabled():
        return Q(pk__in=())
    found = Q(pk__in=())
    makers = Membership.objects.filter(
        user_id=OuterRef("invited_by_id"), organization_id=OuterRef("organization_id"), user__is_active=True
    )
    for role in roles.Role:
        if roles.may(role, roles.Act.INVITE):
            given = [other for other in roles.Role if roles.is_over(role, other)]
            found |= Q(Exists(makers.filter(role=role)), organization_role__in=given)
    return found


def standing(rows: Iterable[Invitation]) -> list[Invitation]:
    """Return the invitations whose makers may still invite with their roles. One query.

    Args:
        rows: Invitations to organisations.
    """
    found = list(rows)
    kept = Invitation.objects.filter(stands(), pk__in=[row.pk for row in found])
    ids = set(kept.order_by().values_list("pk", flat=True))
    return [row for row in found if row.pk in ids]


def role_of(user_id: uuid.UUID, organization_id: uuid.UUID) -> str | None:
    """Return the role of a person, active or not, in an organisation; None where they are no member. One query.

    Args:
        user_id: The person.
        organization_id: The organisation.
    """
    found = Membership.objects.filter(user_id=user_id, organization_id=organization_id)
    return found.values_list("role", flat=True).first()


def has_other_owner(organization_id: uuid.UUID, *, than: uuid.UUID) -> bool:
    """Tell whether an active person other than ``than`` owns an organisation. One query.

    Args:
        organization_id: The organisation.
        than: The person who does not count.
    """
    owners = Membership.objects.filter(organization_id=organization_id, role=roles.Role.OWNER, user__is_active=True)
    return owners.exclude(user_id=than).exists()


def members_page(organization_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[MemberOut]:
    """Return one page of members, the newest first. One query.

    Args:
        organization_id: The organisation.
        filters: The query of the list: cursor and page size.
    """
    ids: dict[uuid.UUID, uuid.UUID] = {}

    def show(rows: QuerySet[Membership]) -> list[MemberOut]:
        found = rows.values_list("pk", "user_id", "user__email", "user__name", "role", "created_at")
        shown = [MemberOut(*row[1:]) for row in found]
        ids.update({row[1]: row[0] for row in found})
        return shown

    return paging.newest_first(
        Membership.objects.filter(organization_id=organization_id),
        filters,
        ordering=MEMBERS_ORDERING,
        show=show,
        id_of=lambda member: ids[member.id],
    )


def purge(*, batch: int) -> int:
    """Delete at most ``batch`` organisations that no member is left of; return how many. Three queries, one for none.

    They are left where accounts end together, or end while there are no organisations here.

    Args:
        batch: Rows of one transaction.
    """
    alone = Organization.objects.filter(~Exists(Membership.objects.filter(organization_id=OuterRef("pk")))).order_by()
    ids = list(alone.values_list("pk", flat=True)[:batch])
    if not ids:
        return 0
    return alone.filter(pk__in=lock_all(ids))._raw_delete(DEFAULT_DB_ALIAS)  # noqa: SLF001 - the database sees to what hangs on one
