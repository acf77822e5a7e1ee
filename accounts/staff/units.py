"""Units of work of staff on other people's accounts. Each checks the caller's rights inside its own transaction.

Roles themselves: ``role_units``.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import Group
from django.db import models
from django.db.models import UUIDField

from accounts import email_address as emails
from accounts import profile
from accounts.access.rights import (
    ADD_USERS,
    CHANGE_USERS,
    DELETE_USERS,
    REMOVE_FACTORS,
    VERIFY_EMAIL,
    Rights,
    rights_of,
    target_of,
)
from accounts.access.roles import named as named_roles
from accounts.access.roles import with_permissions
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import EmailTaken
from accounts.lockout import throttling
from accounts.mfa import factors
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.tokens import Purpose
from accounts.privacy import queries as deletion_queries
from accounts.staff.roles.units import NO_ROLE
from accounts.users import paging, rules
from accounts.users import queries as user_queries
from accounts.users.models import User, UserQuerySet
from accounts.users.outputs import UserOut, user_out
from ironauth.infrastructure.api.paging import Page, cursor_of
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.db.compiled import CompiledOfMany, CompiledSelect, Param

_PLAIN: Final = ("email", "name", *profile.FIELDS, "is_active", "is_staff", "is_superuser")
#: What others believe of a person because it is said here: its values are in the trail.
_BELIEVED: Final = ("email_verified", "is_staff", "is_superuser")
_FILTERS: Final = frozenset({"being_deleted", "search", "is_active", "is_staff", "role"})
MOST_NAMED: Final = 1_000  # people that a condition names one by one
_NO_USER: Final = "There is no user with this id."
_ROLE: Final = CompiledSelect(
    lambda: (
        Group.objects.filter(name=Param("name", models.CharField()))
        .order_by()
        .values_list("pk", "permissions__content_type__app_label", "permissions__codename")
    )
)
_HELD: Final = CompiledOfMany(
    lambda: User.groups.through.objects.values_list("user_id", "group__name"), "user_id", UUIDField()
)


def users_page(filters: Mapping[str, Any]) -> Page[UserOut]:
    """Return one page of users; ``filters`` are those of ``inputs.UserListInput``. Two queries, three with a role."""
    users, leaving = User.objects.get_queryset(), filters.get("being_deleted")
    if leaving is not None:
        users = (
            users.filter(pk__in=ids)
            if leaving and (ids := _leaving(users))
            else users.filter(pending_deletion__isnull=not leaving)
        )
    if text := filters.get("search"):
        users = users.search_leaving(text) if leaving else users.search(text)
    for name in ("is_active", "is_staff"):
        if filters.get(name) is not None:
            users = users.filter(**{name: filters[name]})
    if role := filters.get("role"):
        # By its id: Postgres knows how many people have this one, and finds few by the role, many by the order.
        users = users.filter(groups__in=list(Group.objects.filter(name=role).order_by().values_list("pk", flat=True)))
    ordering = filters["ordering"]
    cursor = cursor_of(filters, ordering)
    if cursor is None and not filters.keys() & _FILTERS:
        found = paging.first_page(ordering=ordering, size=filters["page_size"])
    else:
        found = paging.page(users, ordering=ordering, cursor=cursor, size=filters["page_size"])
    roles = roles_of([user.id for user in found.rows])
    rows = [user_out(user, roles[user.id]) for user in found.rows]
    return Page(rows=rows, next=found.next, previous=found.previous)


def _leaving(users: UserQuerySet) -> list[uuid.UUID]:
    """Return who is being deleted; nobody where there are more than ``MOST_NAMED``. 1 query.

    Postgres would look for them in the order of the list, and walk all others where they are old.
    """
    ids = list(users.filter(pending_deletion__isnull=False).order_by().values_list("pk", flat=True)[: MOST_NAMED + 1])
    return ids if len(ids) <= MOST_NAMED else []


def user_by_id(user_id: uuid.UUID) -> UserOut:
    """Return one user. One query.

    Raises:
        NotFound: There is none with this id.
    """
    account = user_queries.account_snapshot(user_id)
    if account is None:
        raise NotFound(_NO_USER)
    return account.user


def roles_of_new_user(*, actor_id: uuid.UUID, values: Mapping[str, Any]) -> list[Group]:
    """Return the roles a user to be created is to have, after every check that needs no write.

    Args:
        actor_id: The member of staff.
        values: The validated input with every field.

    Raises:
        PermissionDenied: The caller may not do it.
        ValidationFailed: A role is unknown.
        EmailTaken: Another account has the address.
    """
    rights = rights_of(actor_id)
    rights.require(ADD_USERS)
    if values["is_staff"] or values["is_superuser"]:
        rights.require_superuser("make somebody staff")
    if values["email_verified"]:
        rights.require(VERIFY_EMAIL)
    roles = named_roles(values["roles"])
    rights.require_grantable(roles)
    if user_queries.email_is_taken(emails.fold(values["email"])):
        raise EmailTaken
    return roles


def create_user(*, actor_id: uuid.UUID, encoded: str, values: Mapping[str, Any]) -> UserOut:
    """Create a user with a password hashed before.

    Args:
        actor_id: The member of staff.
        encoded: The hash of the password, or an unusable one.
        values: The validated input with every field.

    Raises:
        IntegrityError: The address was taken, or a role deleted, meanwhile.
        DomainError: What ``roles_of_new_user`` raises.
    """
    roles = roles_of_new_user(actor_id=actor_id, values=values)
    verified_at = clock.now() if values["email_verified"] else None
    fields = {name: values[name] for name in _PLAIN}
    user = User.objects.hashed(encoded=encoded, email_verified_at=verified_at, **fields)
    user_queries.add(user)
    for role in roles:
        user_queries.give_role(user.pk, role.pk)
    names = [role.name for role in roles]
    believed = {name: values[name] for name in _BELIEVED}
    details = {**believed, "roles": names}
    audit.record(Event.USER_CREATED, actor_id=actor_id, user_id=user.pk, details=details)
    return user_out(user, names)


def update_user(*, actor_id: uuid.UUID, user_id: uuid.UUID, values: Mapping[str, Any]) -> UserOut:
    """Change the fields that are given; a field that keeps its value is no change and leaves no trace in the trail.

    When the address changes, the old one gets a message.

    Args:
        actor_id: The member of staff.
        user_id: The user to change.
        values: The validated input; a field that is not in it stays as it is.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not do it.
        LastSuperuser: Nobody could run the system.
        DeletionPending: The account is being deleted.
        IntegrityError: The address was taken, or a role deleted, meanwhile.
    """
    rights, user = _target(actor_id, user_id, CHANGE_USERS)
    rules.refuse_being_deleted(user)
    changes = {name: values[name] for name in _PLAIN if name in values and values[name] != getattr(user, name)}
    if "is_staff" in changes or "is_superuser" in changes:
        rights.require_superuser("change who is staff")
    verified = values.get("email_verified")
    verifies = verified is not None and verified != (user.email_verified_at is not None)
    if verifies:
        rights.require(VERIFY_EMAIL)
    if "email" in changes or changes.get("is_active") or verifies:
        rights.require_all_of(user)
    moves = emails.fold(changes.get("email", user.email)) != user.email_key
    if moves or verified is False:
        require_factors_of(rights, user.pk)
    if changes.get("is_active") is False or changes.get("is_superuser") is False:
        rules.keep_a_superuser(without=[user])
    if changes.get("is_active") is False and user_id == actor_id:
        raise PermissionDenied("You would lock yourself out: ask a colleague to do it.")
    tell_of_move(user.pk, old=user.email, new=changes.get("email", user.email))
    for name, value in changes.items():
        setattr(user, name, value)
    touched = set(changes)
    if verifies:
        user.email_verified_at = clock.now() if verified else None
        touched.add("email_verified_at")
    _store(rights, user, touched, values.get("roles"))
    return user_out(user, user_queries.role_names(user.pk))


def believed_values(user: User, changed: Iterable[str]) -> dict[str, bool]:
    """Return the values, as they are now, of those changed fields on which others rely.

    Args:
        user: The user after the change.
        changed: The names of the columns that were changed.
    """
    values = {name: getattr(user, name) for name in changed if name in ("is_active", *_BELIEVED)}
    return values | ({"email_verified": user.email_verified_at is not None} if "email_verified_at" in changed else {})


def require_factors_of(rights: Rights, user_id: uuid.UUID) -> None:
    """Raise ``PermissionDenied`` where somebody has second factors that ``rights`` may not take away.

    Call it before an address is left unproved. Somebody who reads its mail may then start clean, without these factors
    (``email.first_proof``), or declare that the account is not theirs, which ends it (``deletions.disown``). One query
    at most.

    Args:
        rights: The rights of the member of staff.
        user_id: The person whose address is left unproved.
    """
    if not rights.holds(REMOVE_FACTORS) and factors.methods_of(user_id):
        rights.require(REMOVE_FACTORS)


def tell_of_move(user_id: uuid.UUID, *, old: str, new: str) -> None:
    """Have a message sent to the old address when staff change an account's address. Two queries.

    The devices known to that address are forgotten. Nothing happens where only the case differs: it is the same
    address.

    Args:
        user_id: The person.
        old: The address until now, which gets the message.
        new: The address from now on.
    """
    if emails.fold(old) != emails.fold(new):
        outbox.enqueue(Kind.EMAIL_CHANGED, recipient=old, user_id=user_id)
        throttling.forget_devices(email=old)


def require_password_change(user_ids: Iterable[uuid.UUID], actor_id: uuid.UUID) -> None:
    """End every session of these people, keep them out until they have set another password, and mail them how.

    Inactive people get no message. Nine queries for each. One transaction: after an error nothing has changed for
    anybody.

    Args:
        user_ids: The people; each is locked until the transaction ends.
        actor_id: The member of staff.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not do it.
        DeletionPending: An account is being deleted.
    """
    rights = rights_of(actor_id)
    rights.require(CHANGE_USERS)
    for user_id in sorted(set(user_ids)):  # in one order, so that two of these never wait in a circle
        user = _within_reach(rights, user_queries.lock(user_id))
        rules.refuse_being_deleted(user)
        user.must_change_password = True
        user_queries.change(user, ["must_change_password"])
        user_queries.end_sessions(user_id)
        if user.is_active:
            token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=user_id)
            outbox.enqueue(Kind.PASSWORD_CHANGE_REQUIRED, recipient=user.email, user_id=user_id, token_id=token_id)
        audit.record(Event.PASSWORD_CHANGE_REQUIRED, actor_id=actor_id, user_id=user_id)


def delete_user(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Delete a user.

    Args:
        actor_id: The member of staff.
        user_id: The user to delete.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not do it, or is that user.
        LastSuperuser: Nobody could run the system.
    """
    rights, user = _target(actor_id, user_id, DELETE_USERS)
    rights.require_all_of(user)
    rules.require_deletable([user])
    if user_id == actor_id:
        raise PermissionDenied("This is your own account: DELETE /api/v1/access/me asks for its password.")
    deletion_queries.delete(user)
    audit.record(Event.USER_DELETED, actor_id=actor_id, user_id=user_id)


def set_role(*, actor_id: uuid.UUID, user_id: uuid.UUID, role: str, member: bool) -> None:
    """Give a role, or take it; doing so twice is no error.

    Args:
        actor_id: The member of staff.
        user_id: The user who gets or loses it.
        role: The name of the role, not yet judged.
        member: True to give, False to take.

    Raises:
        NotFound: There is no such user or role.
        PermissionDenied: The caller may not do it.
    """
    rights, user = _target(actor_id, user_id, CHANGE_USERS)
    granted = [] if "\x00" in role else _ROLE.rows(name=role)
    if not granted:
        raise NotFound(NO_ROLE)
    rights.require_grants(role, frozenset(f"{label}.{codename}" for _, label, codename in granted if codename))
    group_id = granted[0][0]
    if member:
        event, moved = Event.ROLE_GIVEN, user_queries.give_role(user.pk, group_id)
    else:
        event, moved = Event.ROLE_TAKEN, user_queries.take_role(user.pk, group_id)
    if moved:
        audit.record(event, actor_id=actor_id, user_id=user_id, details={"role": role})


def require_roles(names: Iterable[str]) -> None:
    """Raise ``ValidationFailed`` naming every role of ``names`` that does not exist."""
    named_roles(names)


def _target(actor_id: uuid.UUID, user_id: uuid.UUID, permission: str) -> tuple[Rights, User]:
    """Return the caller's rights and the user to be changed, locked, after the checks common to all changes."""
    rights, user = target_of(actor_id, user_id, permission)
    return rights, _within_reach(rights, user)


def _within_reach(rights: Rights, user: User | None) -> User:
    if user is None:
        raise NotFound(_NO_USER)
    rights.require_above(user)
    return user


def _store(rights: Rights, user: User, touched: set[str], roles: Iterable[str] | None) -> None:
    """Store the fields that were changed, and ``roles`` unless they are None, with an event if anything is new."""
    record = partial(audit.record, Event.USER_CHANGED, actor_id=rights.user_id, user_id=user.pk)
    facts = {"fields": sorted(touched), **believed_values(user, touched)}
    if roles is not None:
        if touched:
            user_queries.change(user, touched)
        moved = _replace_roles(rights, user, roles)
        if touched or moved:
            record(details={**facts, **moved})
    elif touched:
        record(details=facts)
        user_queries.change(user, touched)


def _replace_roles(rights: Rights, user: User, names: Iterable[str]) -> dict[str, list[str]]:
    """Make ``names`` the user's roles; those that are given or taken have to be grantable, and are returned."""
    wanted = {role.name: role for role in named_roles(names)}
    held = {role.name: role for role in with_permissions(user.groups.all())}
    rights.require_grantable((wanted | held)[name] for name in wanted.keys() ^ held.keys())
    user.groups.set(wanted.values())
    moved = {"roles_given": wanted.keys() - held.keys(), "roles_taken": held.keys() - wanted.keys()}
    return {name: sorted(roles) for name, roles in moved.items() if roles}


def roles_of(user_ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, Sequence[str]]:
    """Return the names of the roles of each of these users. One query for every 200, none for nobody.

    Prefetching would make a manager and its objects for every user: 40 % of a page of fifty.
    """
    names: dict[uuid.UUID, list[str]] = {user_id: [] for user_id in user_ids}
    for user_id, name in _HELD.rows(user_ids):
        names[user_id].append(name)
    return names
