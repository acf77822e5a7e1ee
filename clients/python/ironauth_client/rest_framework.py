"""Access tokens in Django REST framework: ``ironauth_client.rest_framework.IronAuthAuthentication``."""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException, AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from ironauth_client.django.conf import client, setting
from ironauth_client.errors import InvalidToken, ProviderUnavailable
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
        """Return the user for a token; a subclass may look one up by ``identities.find``."""
        return TokenUser(claims)

    def authenticate_header(self, request: Request) -> str:
        """Return what a request without a good token is told (RFC 6750 §3)."""
        return 'Bearer error="invalid_token"' if "Authorization" in request.headers else "Bearer"


class HasScopes(BasePermission):
    """Asks the token for every scope in the view's ``required_scopes``."""

    message = "The token lacks a scope."
    code = "insufficient_scope"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the request has a token with all of them; a view that names none lets nobody in."""
        wanted: frozenset[str] = frozenset(getattr(view, "required_scopes", ()))
        return bool(wanted) and isinstance(request.auth, Claims) and request.auth.scopes >= wanted
