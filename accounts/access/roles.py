"""Roles by their names, with the permissions they grant."""

from collections.abc import Iterable

from django.contrib.auth.models import Group, Permission
from django.db.models import Prefetch, QuerySet

from ironauth.infrastructure.core.errors import FieldError, ValidationFailed


def named(names: Iterable[str]) -> list[Group]:
    """Return the roles of these names, with their permissions. Three queries, none for no name.

    Raises:
        ValidationFailed: (``roles``) Naming every one that does not exist.
    """
    wanted = sorted(set(names))
    found = {group.name: group for group in known(wanted)}
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise ValidationFailed(
            errors=[FieldError("roles", "unknown_role", f"There is no role {name!r}.") for name in unknown]
        )
    return [found[name] for name in wanted]


def known(names: Iterable[str]) -> list[Group]:
    """Return those of these roles that exist, with their permissions, in the order of their names."""
    storable = [name for name in names if "\x00" not in name]  # Postgres cannot even be asked for others
    return list(with_permissions(Group.objects.filter(name__in=storable).order_by("name"))) if storable else []


def with_permissions(groups: "QuerySet[Group]") -> "QuerySet[Group]":
    """Return ``groups`` with their permissions fetched in one more query."""
    return groups.prefetch_related(Prefetch("permissions", Permission.objects.select_related("content_type")))
