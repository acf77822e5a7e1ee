"""Access tokens in Django REST framework.

``IronAuthAuthentication`` asks the database for nothing. ``LocalUserAuthentication`` gives this site's users.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar

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

logger = logging.getLogger(__name__)


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
    default_detail = "Tokens cannot be checked at the moment."


def refused(detail: str, code: str = InvalidToken.code) -> AuthenticationFailed:
    """Return the refusal of a token, with its code in the body: front ends decide by it whether to refresh."""
    return AuthenticationFailed({"detail": detail, "code": code}, code=code)


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
            raise refused(str(error), error.code) from error
        except ProviderUnavailable as error:
            logger.warning("a token could not be checked: %s", error)
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
            raise refused("The token is a client's own and names no person.")
        try:
            user = identities.find_or_create(claims).user
        except SignInFailed as error:
            raise refused("No user here has this token.") from error
        if not user.is_active:
            raise refused("The user is not active.")
        return user


class HasScopes(BasePermission):
    """Asks the token for every scope in the view's ``required_scopes``, and in those of a subclass.

    A subclass that names scopes is for function views, and as a default for all views of a site.
    """

    message = "The token lacks a scope."
    code = "insufficient_scope"
    required_scopes: ClassVar[Sequence[str]] = ()

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the request has a token with all of them; where none is named, nobody is let in."""
        wanted: frozenset[str] = frozenset((*self.required_scopes, *getattr(view, "required_scopes", ())))
        if not wanted:
            self.message = "The view names no scopes (required_scopes) and lets nobody in."
        return bool(wanted) and isinstance(request.auth, Claims) and request.auth.scopes >= wanted
