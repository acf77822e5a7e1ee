"""Scopes of the administration: which rights a token may be used for, beside the rights that its caller has.

A person needs the right, and a token whose scope covers it. A machine, which is a client with a token of its own, has
the rights of its scopes and no others.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from accounts.access.rights import (
    ADD_USERS,
    CHANGE_USERS,
    DELETE_USERS,
    REMOVE_FACTORS,
    VERIFY_EMAIL,
    VIEW_AUDIT,
    VIEW_USERS,
)

#: Rights over sign-in providers. No permission of this name can be given to anybody: superusers alone have it, and
#: machines to which a superuser has given the scope.
SEE_PROVIDERS: Final = "accounts.see_providers"
CHANGE_PROVIDERS: Final = "accounts.change_providers"
#: The rights that each scope covers. A right belongs to one scope.
SCOPES: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "users:read": frozenset({VIEW_USERS, "accounts.view_keptdevice", "tokens.view_consent"}),
    "users:write": frozenset({
        ADD_USERS, CHANGE_USERS, "accounts.delete_keptdevice", "tokens.delete_session", "tokens.delete_consent",
    }),
    "users:delete": frozenset({DELETE_USERS}),
    "users:mfa": frozenset({REMOVE_FACTORS}),
    "users:verify": frozenset({VERIFY_EMAIL}),
    "invitations:read": frozenset({"accounts.view_invitation"}),
    "invitations:write": frozenset({"accounts.add_invitation", "accounts.delete_invitation"}),
    "roles:read": frozenset({"auth.view_group"}),
    "roles:write": frozenset({"auth.add_group", "auth.change_group", "auth.delete_group"}),
    "audit:read": frozenset({VIEW_AUDIT}),
    "clients:read": frozenset({"tokens.view_oauthclient"}),
    "clients:write": frozenset({
        "tokens.add_oauthclient", "tokens.change_oauthclient", "tokens.delete_oauthclient",
    }),
    "keys:read": frozenset({"tokens.view_signingkey"}),
    "keys:write": frozenset({"tokens.change_signingkey"}),
    "providers:read": frozenset({SEE_PROVIDERS}),
    "providers:write": frozenset({CHANGE_PROVIDERS}),
})  # fmt: skip
_SCOPE_OF: Final = {permission: scope for scope, permissions in SCOPES.items() for permission in permissions}


def scope_of(permission: str) -> str | None:
    """Return the scope that covers a right (``app_label.codename``); None where no scope does."""
    return _SCOPE_OF.get(permission)


def covered_by(scopes: Iterable[str]) -> frozenset[str]:
    """Return the rights that these scopes cover; a scope of another API covers none."""
    return frozenset(permission for scope in scopes for permission in SCOPES.get(scope, ()))
