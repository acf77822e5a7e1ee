"""What a member of staff may do, and the rule that nobody can give away more than they have.

Rights are Django model permissions, read from the database whenever they are needed: a right taken away is gone with
the next request, whatever a token or a cache still says.
"""

import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from django.contrib.auth.models import Group, Permission
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotAuthenticated, PermissionDenied

type Permissions = frozenset[str]

#: Rights over accounts, which Django makes with the model.
VIEW_USERS: Final = "accounts.view_user"
ADD_USERS: Final = "accounts.add_user"
CHANGE_USERS: Final = "accounts.change_user"
DELETE_USERS: Final = "accounts.delete_user"
#: The right to read the audit trail.
VIEW_AUDIT: Final = "accounts.view_auditevent"
#: The right to remove the second factors of others, or leave an address unproved where that would remove them.
REMOVE_FACTORS: Final = "accounts.reset_mfa"
#: The right to say that an address is verified: applications rely on it.
VERIFY_EMAIL: Final = "accounts.verify_email"
#: Rights over invitations.
VIEW_INVITATIONS: Final = "accounts.view_invitation"
ADD_INVITATIONS: Final = "accounts.add_invitation"
DELETE_INVITATIONS: Final = "accounts.delete_invitation"
#: Rights over organisations; to change one is to change its members too.
VIEW_ORGANIZATIONS: Final = "accounts.view_organization"
ADD_ORGANIZATIONS: Final = "accounts.add_organization"
CHANGE_ORGANIZATIONS: Final = "accounts.change_organization"
DELETE_ORGANIZATIONS: Final = "accounts.delete_organization"
#: Rights over the devices on which others are not asked for their second factor.
VIEW_KEPT_DEVICES: Final = "accounts.view_keptdevice"
DELETE_KEPT_DEVICES: Final = "accounts.delete_keptdevice"
#: Rights over roles themselves, which Django calls groups.
VIEW_ROLES: Final = "auth.view_group"
ADD_ROLES: Final = "auth.add_group"
CHANGE_ROLES: Final = "auth.change_group"
DELETE_ROLES: Final = "auth.delete_group"
#: What tells which rights a client has by itself; the room of clients registers it.
_machines: Final[list[Callable[[uuid.UUID], Permissions | None]]] = []


class Rights(msgspec.Struct, frozen=True):
    """The rights of one active user, or one machine, at one moment; a superuser holds all.

    Attributes:
        user_id: The user, or the client that a machine is.
        is_superuser: Never true of a machine.
        permissions: Each as ``app_label.codename``.
        is_machine: A client calls with a token of its own (``scopes``).
    """

    user_id: uuid.UUID
    is_superuser: bool
    permissions: Permissions
    is_machine: bool = False

    def holds(self, *permissions: str) -> bool:
        """Tell whether all of ``permissions`` (``app_label.codename``) are held."""
        return self.is_superuser or self.permissions.issuperset(permissions)

    def require(self, *permissions: str) -> None:
        """Raise ``PermissionDenied`` naming what is missing."""
        if not self.holds(*permissions):
            missing = ", ".join(sorted(set(permissions) - self.permissions))
            raise PermissionDenied(f"This needs the permission {missing}: ask an administrator for it.")

    def require_superuser(self, action: str) -> None:
        """Raise ``PermissionDenied`` unless held by a superuser."""
        if not self.is_superuser:
            raise PermissionDenied(f"Only a superuser may {action}: ask one to do it.")

    def require_above(self, target: User) -> None:
        """Raise ``PermissionDenied`` if ``target`` is a superuser and this is not: no reaching upwards."""
        if target.is_superuser:
            self.require_superuser("change a superuser")

    def require_all_of(self, target: User) -> None:
        """Raise ``PermissionDenied`` if ``target`` holds rights not held here: taking the account over would gain them.

        For changes of what an account is entered with (its address, its password), for letting it in again, and for
        deleting it. Deactivating needs less: stopping somebody in a hurry gains nothing.
        """
        self.require_above(target)
        if not self.is_superuser and not self.permissions.issuperset(potential_permissions(target)):
            raise PermissionDenied("This person holds rights you do not: ask a superuser to do this.")

    def require_grantable(self, roles: Iterable[Group]) -> None:
        """Raise ``PermissionDenied`` if a role, given or taken, grants what is not held here. Prefetch permissions.

        A role is worth what it grants *here*: one without permissions may be given by anybody who may change users, as
        the contract says (``PUT /users/{id}/roles/{role}``), although its name travels in tokens and applications may
        read more into it. Anybody who wants such a role to be given by few adds a permission to it that only they hold.
        """
        for role in roles:
            self.require_grants(role.name, permissions_of(role))

    def require_grants(self, role: str, permissions: Permissions) -> None:
        """Do the same for one role by its name and what it grants."""
        missing = permissions - self.permissions
        if missing and not self.is_superuser:
            raise PermissionDenied(
                f"The role {role} grants rights you do not hold ({', '.join(sorted(missing))}): "
                "ask a superuser to give or take it."
            )


def rights_of(user_id: uuid.UUID) -> Rights:
    """Return the rights of an active user, or of a machine; a unit of work.

    One query for a superuser, two for a machine, three for others.

    Raises:
        NotAuthenticated: The account is gone or inactive, or the client may not administer.
    """
    user = user_queries.find(user_id)
    if user is None:
        return _rights_of_machine(user_id)
    if not user.is_active:
        raise NotAuthenticated
    return rights_of_user(user)


def _rights_of_machine(client_id: uuid.UUID) -> Rights:
    for permissions_of_machine in _machines:
        held = permissions_of_machine(client_id)
        if held is not None:
            return Rights(user_id=client_id, is_superuser=False, permissions=held, is_machine=True)
    raise NotAuthenticated


def register_machines(permissions_of: Callable[[uuid.UUID], Permissions | None]) -> None:
    """Have clients ask for acts of staff.

    Args:
        permissions_of: A unit of work that returns the rights of the client of this id; None where it may not
            administer, or is no client.
    """
    _machines.append(permissions_of)


def target_of(actor_id: uuid.UUID, user_id: uuid.UUID, permission: str) -> tuple[Rights, User | None]:
    """Return the rights of an active user who holds ``permission``, and the user it is for, if there is one, locked.

    The lock lasts until the transaction ends. One query for a superuser, four for other staff, five for people with no
    access to the admin; two more, or one, when there is no such user.

    Args:
        actor_id: The member of staff who asks.
        user_id: The person it is done to.
        permission: ``app_label.codename``.

    Raises:
        PermissionDenied: The caller does not hold it.
        NotAuthenticated: The caller's account is gone or inactive.
    """
    found = user_queries.lock_by_staff(user_id, actor_id=actor_id)
    if found is not None and found[1]:
        return Rights(user_id=actor_id, is_superuser=True, permissions=frozenset()), found[0]
    rights = rights_of(actor_id)
    rights.require(permission)
    return rights, found[0] if found is not None else user_queries.lock(user_id)


def for_holder[**P, T](
    user_id: uuid.UUID, permission: str, unit: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what ``unit`` returns to somebody who holds ``permission``; a unit of work itself.

    As many more queries as ``rights_of``.

    Args:
        user_id: The caller, who has to hold the permission.
        permission: ``app_label.codename``.
        unit: The unit of work; it runs in the same transaction.
        *args: Passed on to ``unit``.
        **kwargs: Passed on to ``unit``.

    Raises:
        PermissionDenied: The caller does not hold it; ``unit`` has not run.
        NotAuthenticated: The caller's account is gone or inactive.
    """
    rights_of(user_id).require(permission)
    return unit(*args, **kwargs)


def rights_of_user(user: User) -> Rights:
    """Return the rights of a loaded user, through Django's authentication backends."""
    held = frozenset() if user.is_superuser else frozenset(user.get_all_permissions())
    return Rights(user_id=user.pk, is_superuser=user.is_superuser and user.is_active, permissions=held)


def potential_permissions(user: User) -> Permissions:
    """Return what ``user`` may do, or could once active again. One query.

    Django's ``get_all_permissions`` says nothing for an inactive user: anybody who may deactivate people could then
    take a more powerful account over and wake it up again.
    """
    held = held_by(user).values_list("content_type__app_label", "codename")
    return frozenset(f"{label}.{codename}" for label, codename in held)


def held_by(user: User) -> QuerySet[Permission]:
    """Return the permissions given to ``user`` directly and by roles, active or not."""
    return Permission.objects.filter(Q(user=user) | Q(group__user=user)).order_by()


def rights_of_request(request: HttpRequest) -> Rights:
    """Return the rights of anybody who uses the admin; Django keeps them on the user for the request."""
    user: Any = request.user
    return rights_of_user(user)


def permissions_of(role: Group) -> Permissions:
    """Return what a role grants, as ``app_label.codename``. Expects ``permissions__content_type`` prefetched."""
    return frozenset(f"{held.content_type.app_label}.{held.codename}" for held in role.permissions.all())
