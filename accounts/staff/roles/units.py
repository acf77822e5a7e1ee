"""Units of work of staff on roles: Django's groups, with the permissions they grant."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from django.contrib.auth.models import Group, Permission
from django.db import DEFAULT_DB_ALIAS
from django.db.models import CharField, IntegerField, QuerySet

from accounts.access.rights import ADD_ROLES, CHANGE_ROLES, DELETE_ROLES, permissions_of, rights_of
from accounts.access.roles import with_permissions
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import RoleExists
from accounts.users.outputs import RoleOut
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.api.paging import Cursor, Page
from ironauth.infrastructure.cache.query_cache import table_changed
from ironauth.infrastructure.core.errors import FieldError, NotFound, ValidationFailed
from ironauth.infrastructure.db.compiled import CompiledNumberedInsert, CompiledOfMany, CompiledSelect, Param

#: What ``ordering`` may name. Names are unique, so that a name alone is a place in the list.
ORDERINGS: Final = ("name", "-name")
NO_ROLE: Final = "There is no such role: GET /api/v1/roles lists them."
_NO_ID: Final = uuid.UUID(int=0)
_GRANTED: Final = CompiledOfMany(
    lambda: Group.permissions.through.objects.values_list(
        "group_id", "permission__content_type__app_label", "permission__codename"
    ),
    "group_id",
    IntegerField(),
)
_CREATE: Final = CompiledNumberedInsert(lambda: Group(name=Param("name", CharField())))


def place_of(ordering: str) -> str:
    """Return what cursors of this list and ordering belong to; people have an ordering of the same name."""
    return f"role {ordering}"


def page(filters: Mapping[str, Any]) -> Page[RoleOut]:
    """Return one page of roles with what they grant; ``filters`` are those of ``RoleListInput``. Two queries."""
    place = place_of(filters["ordering"])
    cursor = paging.cursor_of(filters, place)
    descending = filters["ordering"].startswith("-") != (cursor is not None and cursor.backwards)
    roles = _in_order(descending)
    for word in (filters.get("search") or "").split():
        roles = roles.filter(name__has_part=word)
    if cursor is not None:
        roles = roles.filter(**{"name__lt" if descending else "name__gt": cursor.value})
    size: int = filters["page_size"]
    plain = cursor is None and not filters.get("search")  # what is asked most, and compiled once
    found = paging.cut(
        [(pk, name) for pk, name in (_first(descending, size).rows() if plain else roles[: size + 1])],
        size=size,
        cursor=cursor,
        beside=lambda role, back: Cursor(place, role[1], _NO_ID, back).encode(),
    )
    granted = _granted_by([role_id for role_id, _ in found.rows])
    rows = [RoleOut(name=name, permissions=tuple(sorted(granted[role_id]))) for role_id, name in found.rows]
    return Page(rows=rows, next=found.next, previous=found.previous)


def _in_order(descending: bool) -> "QuerySet[Group, tuple[int, str]]":
    return Group.objects.order_by("-name" if descending else "name").values_list("pk", "name")


@lru_cache(maxsize=8)  # sizes in use; there are 400 queries a client could ask for
def _first(descending: bool, size: int) -> CompiledSelect:
    return CompiledSelect(lambda: _in_order(descending)[: size + 1])


def create_role(*, actor_id: uuid.UUID, name: str, permissions: Iterable[str]) -> RoleOut:
    """Create a role of permissions the caller holds.

    Args:
        actor_id: The member of staff.
        name: The name of the role, validated.
        permissions: Each as ``app_label.codename``.

    Raises:
        PermissionDenied: The caller does not hold all of them.
        IntegrityError: The name is taken.
    """
    rights = rights_of(actor_id)
    rights.require(ADD_ROLES)
    granted = _permissions(set(permissions))
    rights.require(*granted)
    number = _CREATE.new_id(name=name)
    audit.record(Event.ROLE_CREATED, actor_id=actor_id, details={"role": name, "permissions": sorted(granted)})
    if granted:
        group = Group.from_db(DEFAULT_DB_ALIAS, ("id", "name"), (number, name))
        group.permissions.add(*granted.values())  # it has none: nothing to compare with
    table_changed(Group)
    return RoleOut(name=name, permissions=tuple(sorted(granted)))


def role_by_name(name: str) -> RoleOut:
    """Return one role. Two queries.

    Raises:
        NotFound: There is none of this name.
    """
    return _role_out(_existing(name))


def lock(name: str) -> None:
    """Lock one role until the transaction ends.

    Raises:
        NotFound: There is none of this name.
    """
    _existing(name, locked=True)


def change_role(*, actor_id: uuid.UUID, name: str, values: Mapping[str, Any]) -> RoleOut:
    """Change the name of a role or what it grants; what keeps its value is no change and leaves no trace.

    Args:
        actor_id: The member of staff.
        name: Of the role, not yet judged.
        values: The validated input; a field that is not in it stays as it is.

    Raises:
        NotFound: There is no such role.
        PermissionDenied: The caller may not change roles, or lacks something that it grants, or is to grant.
        ValidationFailed: A permission is unknown.
        RoleExists: Another role has the name.
    """
    rights = rights_of(actor_id)
    rights.require(CHANGE_ROLES)
    role = _existing(name, locked=True)
    held = permissions_of(role)
    rights.require_grants(name, held)
    new_name: str = values.get("name", name)
    details: dict[str, object] = {}
    if "permissions" in values:
        wanted = _permissions(set(values["permissions"]))
        rights.require(*wanted)
        moved = {"permissions_given": sorted(wanted.keys() - held), "permissions_taken": sorted(held - wanted.keys())}
        details = {key: names for key, names in moved.items() if names}
    fields = [*(["name"] if new_name != name else ()), *(["permissions"] if details else ())]
    if new_name != name:
        if Group.objects.filter(name=new_name).exists():
            raise RoleExists
        role.name = new_name
        role.save(update_fields=["name"])  # tells every member's sessions
        details = {**details, "before": name}
    if "permissions" in fields:
        role.permissions.set(wanted.values())
    if fields:
        audit.record(Event.ROLE_CHANGED, actor_id=actor_id, details={"role": new_name, "fields": fields, **details})
    return _role_out(_existing(new_name))


def delete_role(*, actor_id: uuid.UUID, name: str) -> None:
    """Delete a role; who had it has it no more, at once.

    Args:
        actor_id: The member of staff.
        name: Of the role, not yet judged.

    Raises:
        NotFound: There is no such role.
        PermissionDenied: The caller may not delete roles, or lacks something that this one grants.
    """
    rights = rights_of(actor_id)
    rights.require(DELETE_ROLES)
    role = _existing(name, locked=True)
    rights.require_grants(name, permissions_of(role))
    audit.record(Event.ROLE_DELETED, actor_id=actor_id, details={"role": name})
    role.delete()


def _existing(name: str, *, locked: bool = False) -> Group:
    """Return the role of this name with what it grants; raises ``NotFound``."""
    roles = with_permissions(Group.objects.filter(name=name))
    found = None if "\x00" in name else (roles.select_for_update() if locked else roles).first()
    if found is None:
        raise NotFound(NO_ROLE)
    return found


def _role_out(role: Group) -> RoleOut:
    return RoleOut(name=role.name, permissions=tuple(sorted(permissions_of(role))))


def require_permissions(names: Iterable[str]) -> None:
    """Raise ``ValidationFailed`` naming every permission of ``names`` that does not exist."""
    _permissions(set(names))


def _permissions(names: set[str]) -> dict[str, Permission]:
    """Return the permissions of these names; raises ``ValidationFailed`` naming every unknown one. One query."""
    codenames = {name.partition(".")[2] for name in names}
    rows = Permission.objects.filter(codename__in=codenames).select_related("content_type") if names else ()
    found = {row.user_perm_str: row for row in rows}
    if unknown := sorted(names - found.keys()):
        raise ValidationFailed(
            errors=[
                FieldError("permissions", "unknown_permission", f"There is no permission {name}.") for name in unknown
            ]
        )
    return {name: found[name] for name in names}


def _granted_by(role_ids: Sequence[int]) -> Mapping[int, Sequence[str]]:
    """Return what each of these roles grants, as ``app_label.codename``. One query for every 200, none for no role."""
    granted: dict[int, list[str]] = {role_id: [] for role_id in role_ids}
    for role_id, label, codename in _GRANTED.rows(role_ids):
        granted[role_id].append(f"{label}.{codename}")
    return granted
