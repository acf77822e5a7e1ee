"""Access tokens in Django REST framework.

``IronAuthAuthentication`` asks the database for nothing. ``LocalUserAuthentication`` gives this site's users.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException, AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from ironauth_client import metadata
from ironauth_client.django import identities
from ironauth_client.django.conf import client, setting
from ironauth_client.errors import InvalidToken, ProviderUnavailable, SignInFailed, challenge
from ironauth_client.presented import presented
from ironauth_client.tokens import Claims


@dataclass(frozen=True)
class TokenUser:
    """Who a token names, without a row in this site's database."""

    claims: Claims
    is_authenticated: bool = field(default=True, init=False)
    is_anonymous: bool = field(default=False, init=False)
    is_active: bool = field(default=True, init=False)
    is_staff: bool = field(default=False, init=False)

    @property
    def pk(self) -> str:
        """The subject, which throttles count by."""
        return self.claims.subject

    def get_all_permissions(self, obj: Any = None) -> frozenset[str]:
        """Return the permissions that the token's scopes and its person's roles both give; none for a single object.

        ``SCOPE_PERMISSIONS`` says what a client may do for somebody, ``ROLE_PERMISSIONS`` what the person may. Where
        the site has one of the maps alone, that one counts; without any the token has no permission.
        """
        maps = ((setting("SCOPE_PERMISSIONS"), self.claims.scopes), (setting("ROLE_PERMISSIONS"), self.claims.roles))
        given = [_given(held, names) for held, names in maps if held]
        return frozenset.intersection(*given) if given and obj is None else frozenset()

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        """Return whether the token has this permission, ``app_label.codename``."""
        return perm in self.get_all_permissions(obj)

    def has_perms(self, perm_list: Iterable[str], obj: Any = None) -> bool:
        """Return whether the token has all of these permissions, as ``DjangoModelPermissions`` asks."""
        return self.get_all_permissions(obj).issuperset(perm_list)

    def has_module_perms(self, app_label: str) -> bool:
        """Return whether the token has any permission of this application."""
        return any(one.startswith(f"{app_label}.") for one in self.get_all_permissions())


def _given(held: Mapping[str, Iterable[str]], names: Iterable[str]) -> frozenset[str]:
    return frozenset(permission for name in names for permission in held.get(name, ()))


class Unavailable(APIException):
    """The server had to be asked and does not answer."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE
    default_code = "temporarily_unavailable"


class IronAuthAuthentication(BaseAuthentication):
    """Takes Bearer and DPoP tokens; ``request.auth`` is their ``Claims``."""

    def authenticate(self, request: Request) -> tuple[Any, Claims] | None:
        """Return who asks, None without a token of ours."""
        try:
            shown = presented(
                [request.headers["Authorization"]] if "Authorization" in request.headers else [],
                [request.headers["DPoP"]] if "DPoP" in request.headers else [],
                method=request.method or "",
                url=request.build_absolute_uri(),
            )
            if shown is None:
                return None
            claims = client().verify(shown, revocation=setting("REVOCATION"))
        except InvalidToken as error:
            raise AuthenticationFailed(str(error), code=error.code) from error
        except ProviderUnavailable as error:
            raise Unavailable from error
        return self.user_of(claims), claims

    def user_of(self, claims: Claims) -> Any:
        """Return the user for a token; ``LocalUserAuthentication`` looks one up."""
        return TokenUser(claims)

    def authenticate_header(self, request: Request) -> str:
        """Return what a request without a good token is told (RFC 6750 §3)."""
        error = InvalidToken() if "Authorization" in request.headers else None
        return challenge(error, said=metadata.challenge_of(client().provider.config))


class LocalUserAuthentication(IronAuthAuthentication):
    """``request.user`` is a user of this site, found by issuer and subject as at a sign-in; rights are Django's own.

    Somebody new gets a user without a password, unless ``CREATE_USERS`` is False. The token has no address: a site
    whose users are named by one makes them at a sign-in at its pages, or with ``Identity`` rows.
    """

    def user_of(self, claims: Claims) -> Any:
        """Return the user.

        Raises:
            AuthenticationFailed: The token is a client's own, names nobody here, or somebody who is not active.
        """
        if claims.subject == claims.client_id:
            raise AuthenticationFailed("The token is a client's own and names no person.", code="invalid_token")
        try:
            user = identities.find_or_create(claims).user
        except SignInFailed as error:
            raise AuthenticationFailed("No user here has this token.", code="invalid_token") from error
        if not user.is_active:
            raise AuthenticationFailed("The user is not active.", code="invalid_token")
        return user


class HasScopes(BasePermission):
    """Asks the token for every scope in the view's ``required_scopes``."""

    message = "The token lacks a scope."
    code = "insufficient_scope"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the request has a token with all of them; a view that names none lets nobody in."""
        wanted: frozenset[str] = frozenset(getattr(view, "required_scopes", ()))
        return bool(wanted) and isinstance(request.auth, Claims) and request.auth.scopes >= wanted
