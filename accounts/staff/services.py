"""What staff do with other people's accounts and with roles; async, keyword-only."""

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError

from accounts.access.listing import list_for_holder
from accounts.access.rights import VIEW_AUDIT, VIEW_ROLES, VIEW_USERS, for_holder
from accounts.audit import exporting
from accounts.audit import queries as audit_queries
from accounts.audit.exporting import Format
from accounts.audit.outputs import AuditEventOut, AuditExportOut
from accounts.errors import EmailTaken, RoleExists, UserProtected
from accounts.passwords import hashing as passwords
from accounts.passwords.breached import require_unbreached
from accounts.staff import units as staff_units
from accounts.staff.roles import units as role_units
from accounts.users import queries as user_queries
from accounts.users.outputs import RoleOut, UserOut
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import FieldError, NotFound, ValidationFailed
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

#: A user, as ``get_user`` shows them, for changes under a condition.
EDITED: Final = Edited(show=staff_units.user_by_id, lock=user_queries.lock)


async def list_users(*, actor_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[UserOut]:
    """Return one page of users.

    Args:
        actor_id: The member of staff.
        filters: The validated query: filters, ordering, cursor and page size.

    Raises:
        PermissionDenied: The caller may not see them.
        ValidationFailed: The cursor is not one of ours.
    """
    return await list_for_holder(actor_id, VIEW_USERS, staff_units.users_page, filters)


async def get_user(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> UserOut:
    """Return one user.

    Args:
        actor_id: The member of staff.
        user_id: The user to return.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such user.
    """
    return await database().read(for_holder, actor_id, VIEW_USERS, staff_units.user_by_id, user_id)


async def create_user(*, actor_id: uuid.UUID, values: Mapping[str, Any]) -> UserOut:
    """Create a user; without a password nobody can sign in to it until one is set.

    The input has judged the policy.

    Args:
        actor_id: The member of staff.
        values: The validated input with every field; ``password`` is None where the user is to choose one.

    Raises:
        EmailTaken: Another account has the address.
        PermissionDenied: The caller may not do it.
        ValidationFailed: A role is unknown, or the password is known from a breach.
        Overloaded: The hash pool is full.
    """
    password = values["password"]
    if password is None:
        encoded = make_password(None)
    else:  # what would be refused is, before the hash is paid for
        await database().read(staff_units.roles_of_new_user, actor_id=actor_id, values=values)
        await require_unbreached(password, field="password")
        encoded = await passwords.hash_password(password)
    try:
        user = await database().write(staff_units.create_user, actor_id=actor_id, encoded=encoded, values=values)
    except IntegrityError as error:
        raise _conflict(error) from error
    get_logger().info("user_created_by_staff", user_id=str(user.id), by=str(actor_id), fields=[])
    return user


async def update_user(*, actor_id: uuid.UUID, user_id: uuid.UUID, values: Mapping[str, Any]) -> UserOut:
    """Change a user; a deactivation ends every session at once.

    Args:
        actor_id: The member of staff.
        user_id: The user to change.
        values: The validated input; a field that is not in it stays as it is.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not do it.
        EmailTaken: Another account has the address.
        LastSuperuser: Nobody could run the system.
        DeletionPending: The account is being deleted.
        ValidationFailed: A role is unknown.
    """
    try:
        user = await database().write(staff_units.update_user, actor_id=actor_id, user_id=user_id, values=values)
    except IntegrityError as error:
        raise _conflict(error) from error
    get_logger().info("user_changed_by_staff", user_id=str(user_id), by=str(actor_id), fields=sorted(values))
    return user


async def delete_user(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Delete a user.

    Args:
        actor_id: The member of staff.
        user_id: The user to delete.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not do it.
        LastSuperuser: Nobody could run the system.
        UserProtected: Rows of another application forbid it.
    """
    try:
        await database().write(staff_units.delete_user, actor_id=actor_id, user_id=user_id)
    except IntegrityError as error:  # Django's ProtectedError and RestrictedError are such
        raise UserProtected from error
    get_logger().info("user_deleted", user_id=str(user_id), by=str(actor_id), fields=[])


async def set_role(*, actor_id: uuid.UUID, user_id: uuid.UUID, role: str, member: bool) -> None:
    """Give or take a role.

    Args:
        actor_id: The member of staff.
        user_id: The user who gets or loses it.
        role: The name of the role, not yet judged.
        member: True to give, False to take.

    Raises:
        NotFound: There is no such user or role.
        PermissionDenied: The caller may not do it.
    """
    unit = partial(staff_units.set_role, actor_id=actor_id, user_id=user_id, role=role, member=member)
    try:
        await database().write(unit)
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        raise NotFound(role_units.NO_ROLE) from error  # deleted in this very moment
    event = "role_given" if member else "role_taken"
    get_logger().info(event, user_id=str(user_id), by=str(actor_id), fields=[role])


async def list_roles(*, actor_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[RoleOut]:
    """Return one page of roles.

    Args:
        actor_id: The member of staff.
        filters: The validated query: search, ordering, cursor and page size.

    Raises:
        PermissionDenied: The caller may not see them.
        ValidationFailed: The cursor is not one of ours.
    """
    return await list_for_holder(actor_id, VIEW_ROLES, role_units.page, filters)


async def create_role(*, actor_id: uuid.UUID, name: str, permissions: list[str]) -> RoleOut:
    """Create a role.

    Args:
        actor_id: The member of staff.
        name: The name of the role, validated.
        permissions: Each as ``app_label.codename``.

    Raises:
        RoleExists: The name is taken.
        PermissionDenied: The caller does not hold all of its permissions.
        ValidationFailed: A permission is unknown.
    """
    try:
        role = await database().write(role_units.create_role, actor_id=actor_id, name=name, permissions=permissions)
    except IntegrityError as error:
        raise RoleExists from error
    get_logger().info("role_created", role=name, by=str(actor_id))
    return role


async def require_roles(names: Iterable[str]) -> None:
    """Raise ``ValidationFailed`` naming every role of ``names`` that does not exist."""
    await database().read(staff_units.require_roles, names)


def _conflict(error: IntegrityError) -> EmailTaken | ValidationFailed:
    """Return what the database refused a user for: a role deleted in this very moment, or the address."""
    if refers_to_nothing(error):
        return ValidationFailed(errors=[FieldError("roles", "unknown_role", "One of these roles was just deleted.")])
    return EmailTaken()


async def list_audit_events(*, actor_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[AuditEventOut]:
    """Return one page of the trail, the newest first.

    Args:
        actor_id: The member of staff.
        filters: The validated query: filters, cursor and page size.

    Raises:
        PermissionDenied: Without ``accounts.view_auditevent``.
        ValidationFailed: The cursor is of another list.
    """
    return await list_for_holder(actor_id, VIEW_AUDIT, audit_queries.page, filters)


async def export_audit_events(
    *, actor_id: uuid.UUID, session_id: uuid.UUID | None, filters: Mapping[str, Any], form: Format
) -> AsyncIterator[bytes]:
    """Return the events up to now, the oldest first, as parts of a file; by then the trail has an event of the export.

    Args:
        actor_id: The member of staff.
        session_id: The session that the request came in, for the trail.
        filters: The validated query; it is recorded as far as it restricts the export.
        form: The format of the file.

    Raises:
        PermissionDenied: Without ``accounts.view_auditevent``.
    """
    until = first_id_at(clock.now())
    told = {name: value for name, value in filters.items() if name != "format"}
    record = partial(exporting.record_export, actor_id=actor_id, session_id=session_id, form=form, filters=told)
    await database().write(for_holder, actor_id, VIEW_AUDIT, record)
    reached = await database().position()  # a replica that has not come so far would leave events out

    async def parts() -> AsyncIterator[bytes]:
        yield exporting.head(form)
        after: uuid.UUID | None = None
        while found := await database().read_since(reached, _export_batch, filters, after, until):
            yield exporting.written(found, form)
            after = found[-1].id

    return parts()


def _export_batch(filters: Mapping[str, Any], after: uuid.UUID | None, until: uuid.UUID) -> Sequence[AuditExportOut]:
    return exporting.batch(audit_queries.filtered(filters, exporting=True), after=after, until=until)
