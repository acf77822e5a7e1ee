"""Units of work on organisations by staff and machines. Each checks the caller's rights in its own transaction."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts import names
from accounts.access.rights import ADD_ORGANIZATIONS, CHANGE_ORGANIZATIONS, DELETE_ORGANIZATIONS, rights_of
from accounts.organizations import changes, queries, rules
from accounts.organizations.models import Membership, Organization
from accounts.organizations.outputs import MemberOut, OrganizationOut, OwnOrganizationOut, own_out
from accounts.users import queries as user_queries
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core.errors import FieldError, NotFound, ValidationFailed

#: The only order there is of the list; part of each cursor.
ORDERING: Final = "organization -created_at"
TAKEN: Final = "Another organization has this short name: choose another one."
NO_USER: Final = "There is no user with this id."


def counted(rows: QuerySet[Organization]) -> QuerySet[Organization]:
    """Return organisations with the number of their members, ``members``."""
    of_one = Membership.objects.filter(organization_id=OuterRef("pk")).order_by().values("organization_id")
    return rows.annotate(members=Coalesce(Subquery(of_one.annotate(count=Count("pk")).values("count")), 0))


def searched(rows: QuerySet[Organization], term: str) -> QuerySet[Organization]:
    """Return the organisations whose name or short name has every word of ``term``.

    Args:
        rows: The organisations to look among.
        term: As typed.
    """
    for word in names.normalise(term).split():
        rows = rows.filter(Q(name__has_part=word) | Q(slug__has_part=word))
    return rows


def page(filters: Mapping[str, Any]) -> Page[OrganizationOut]:
    """Return one page of organisations, the newest first. One query.

    Args:
        filters: Those of ``StaffOrganizationListInput``.
    """
    return paging.newest_first(
        counted(searched(Organization.objects.all(), filters.get("search", ""))),
        filters,
        ordering=ORDERING,
        show=lambda rows: [_out(row) for row in rows],
        id_of=lambda row: row.id,
    )


def organization_by_id(organization_id: uuid.UUID) -> OrganizationOut:
    """Return one organisation. One query.

    Raises:
        NotFound: There is none with this id.
    """
    row = counted(Organization.objects.filter(pk=organization_id)).first()
    if row is None:
        raise NotFound(queries.NO_ORGANIZATION)
    return _out(row)


def members(organization_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[MemberOut]:
    """Return one page of members, the newest first.

    Args:
        organization_id: The organisation.
        filters: The query of the list.

    Raises:
        NotFound: There is no such organisation.
    """
    if not Organization.objects.filter(pk=organization_id).exists():
        raise NotFound(queries.NO_ORGANIZATION)
    return queries.members_page(organization_id, filters)


def organizations_of(user_id: uuid.UUID) -> list[OwnOrganizationOut]:
    """Return a person's memberships, by the name of the organisation; also of somebody who is deactivated.

    Raises:
        NotFound: There is no such person.
    """
    if user_queries.find(user_id) is None:
        raise NotFound(NO_USER)
    rows = Membership.objects.filter(user_id=user_id).select_related("organization")
    found = rows.order_by("organization__name", "organization_id")[: rules.MOST_OF_A_PERSON]
    return [own_out(queries.row_of(one)) for one in found]


def create(*, actor_id: uuid.UUID, values: Mapping[str, Any]) -> OrganizationOut:
    """Make an organisation.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``StaffOrganizationInput``.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: (``slug``, ``owner``) It is taken; there is no such active person.
        TooManyOrganizations: The owner has as many as anybody may.
        IntegrityError: The short name was taken meanwhile.
    """
    rights_of(actor_id).require(ADD_ORGANIZATIONS)
    slug = values.get("slug") or rules.new_slug(values["name"])
    if Organization.objects.filter(slug=slug).exists():
        raise ValidationFailed(errors=[FieldError("slug", "taken", TAKEN)])
    owner_id = values["owner"]
    try:
        made = changes.create(name=values["name"], slug=slug, owner_id=owner_id, actor_id=actor_id)
    except NotFound as error:
        raise ValidationFailed(errors=[FieldError("owner", "unknown", changes.NO_PERSON)]) from error
    return organization_by_id(made.organization_id)


def rename(*, actor_id: uuid.UUID, organization_id: uuid.UUID, name: str | None = None) -> OrganizationOut:
    """Give an organisation another name.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.
        name: As it is shown; None for the one it has.

    Raises:
        PermissionDenied: The caller may not.
        NotFound: There is no such organisation.
    """
    rights_of(actor_id).require(CHANGE_ORGANIZATIONS)
    row = queries.lock(organization_id)
    changes.rename(row, name=row.name if name is None else name, actor_id=actor_id)
    return organization_by_id(organization_id)


def delete(*, actor_id: uuid.UUID, organization_id: uuid.UUID) -> None:
    """Delete an organisation with all memberships.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.

    Raises:
        PermissionDenied: The caller may not.
        NotFound: There is no such organisation.
    """
    rights_of(actor_id).require(DELETE_ORGANIZATIONS)
    changes.delete(queries.lock(organization_id), actor_id=actor_id)


def set_member(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID, role: str) -> None:
    """Make somebody a member, or give a member another role.

    Args:
        actor_id: The member of staff, or the machine.
        organization_id: The organisation.
        user_id: The person.
        role: Of ``roles.Role``.

    Raises:
        PermissionDenied: The caller may not.
        NotFound: There is no such organisation, or no such active person.
        DomainError: What ``changes.join`` and ``changes.set_role`` raise.
    """
    rights_of(actor_id).require(CHANGE_ORGANIZATIONS)
    if queries.role_of(user_id, organization_id) is None:
        changes.add(organization_id, user_id=user_id, role=role, actor_id=actor_id)
    else:
        changes.set_role(queries.lock(organization_id), user_id=user_id, role=role, actor_id=actor_id)


def remove_member(*, actor_id: uuid.UUID, organization_id: uuid.UUID, user_id: uuid.UUID) -> None:
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
    rights_of(actor_id).require(CHANGE_ORGANIZATIONS)
    changes.remove(queries.lock(organization_id), user_id=user_id, actor_id=actor_id, by_staff=True)


def _out(row: Organization) -> OrganizationOut:
    counted_row: Any = row
    return OrganizationOut(row.pk, row.name, row.slug, counted_row.members, row.created_at)
