"""Scopes of the administration: which rights a token may be used for, beside the rights that its caller has.

A person needs the right, and a token whose scope covers it. A machine, which is a client with a token of its own, has
the rights of its scopes and no others.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from accounts.access.rights import (
    ADD_INVITATIONS,
    ADD_ORGANIZATIONS,
    ADD_ROLES,
    ADD_USERS,
    CHANGE_ORGANIZATIONS,
    CHANGE_ROLES,
    CHANGE_USERS,
    DELETE_INVITATIONS,
    DELETE_KEPT_DEVICES,
    DELETE_ORGANIZATIONS,
    DELETE_ROLES,
    DELETE_USERS,
    REMOVE_FACTORS,
    VERIFY_EMAIL,
    VIEW_AUDIT,
    VIEW_INVITATIONS,
    VIEW_KEPT_DEVICES,
    VIEW_ORGANIZATIONS,
    VIEW_ROLES,
    VIEW_USERS,
)

#: Rights over sign-in providers. No permission of this name can be given to anybody: superusers alone have it, and
#: machines to which a superuser has given the scope.
SEE_PROVIDERS: Final = "accounts.see_providers"
CHANGE_PROVIDERS: Final = "accounts.change_providers"
#: The right to act for people at providers with the tokens that are kept: machines alone have it.
USE_PROVIDER_TOKENS: Final = "accounts.use_provider_tokens"
#: The rights that each scope covers. A right belongs to one scope.
SCOPES: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "users:read": frozenset({VIEW_USERS, VIEW_KEPT_DEVICES, "tokens.view_consent"}),
    "users:write": frozenset({
        ADD_USERS, CHANGE_USERS, DELETE_KEPT_DEVICES, "tokens.delete_session", "tokens.delete_consent",
    }),
    "users:delete": frozenset({DELETE_USERS}),
    "users:mfa": frozenset({REMOVE_FACTORS}),
    "users:verify": frozenset({VERIFY_EMAIL}),
    "invitations:read": frozenset({VIEW_INVITATIONS}),
    "invitations:write": frozenset({ADD_INVITATIONS, DELETE_INVITATIONS}),
    "organizations:read": frozenset({VIEW_ORGANIZATIONS}),
    "organizations:write": frozenset({ADD_ORGANIZATIONS, CHANGE_ORGANIZATIONS, DELETE_ORGANIZATIONS}),
    "roles:read": frozenset({VIEW_ROLES}),
    "roles:write": frozenset({ADD_ROLES, CHANGE_ROLES, DELETE_ROLES}),
    "audit:read": frozenset({VIEW_AUDIT}),
    "clients:read": frozenset({"tokens.view_oauthclient"}),
    "clients:write": frozenset({
        "tokens.add_oauthclient", "tokens.change_oauthclient", "tokens.delete_oauthclient",
    }),
    "resources:read": frozenset({"tokens.view_apiresource", "tokens.view_detailtype"}),
    "resources:write": frozenset({
        "tokens.add_apiresource", "tokens.change_apiresource", "tokens.delete_apiresource",
        "tokens.add_detailtype", "tokens.change_detailtype", "tokens.delete_detailtype",
    }),
    "keys:read": frozenset({"tokens.view_signingkey"}),
    "keys:write": frozenset({"tokens.change_signingkey"}),
    "providers:read": frozenset({SEE_PROVIDERS}),
    "providers:write": frozenset({CHANGE_PROVIDERS}),
    "providers:tokens": frozenset({USE_PROVIDER_TOKENS}),
})  # fmt: skip
_SCOPE_OF: Final = {permission: scope for scope, permissions in SCOPES.items() for permission in permissions}


def scope_of(permission: str) -> str | None:
    """Return the scope that covers a right (``app_label.codename``); None where no scope does."""
    return _SCOPE_OF.get(permission)


def covered_by(scopes: Iterable[str]) -> frozenset[str]:
    """Return the rights that these scopes cover; a scope of another API covers none."""
    return frozenset(permission for scope in scopes for permission in SCOPES.get(scope, ()))
