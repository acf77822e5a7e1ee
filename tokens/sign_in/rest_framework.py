"""Access tokens in Django REST framework's own views: of a project that is built on this product."""

from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from tokens.errors import InvalidToken, api_challenge
from tokens.principal import Principal
from tokens.sessions.authentication import AccessTokenAuthentication


class TokenAuthentication(BaseAuthentication):
    """``request.user`` is the person of the access token, as a row of the user model; ``request.auth`` the principal.

    The token comes in the Authorization header, or in the cookie of the pages; then the request must come from a page
    of this site. A view that OAuth clients may call too says by ``token_scope = "orders"`` which scope they need.
    """

    def authenticate(self, request: Request) -> tuple[Any, Principal] | None:
        """Return person and principal; None without a credential. 1 query, 2 for a token that is new here.

        Raises ``InvalidToken`` (401), for a client's own token too; ``InsufficientScope`` (403); ``CrossOrigin`` (403);
        ``Unavailable`` (503).
        """
        found = async_to_sync(AccessTokenAuthentication().authenticate)(request)
        if found is None:
            return None
        principal = found[1]
        people = get_user_model()._default_manager  # noqa: SLF001 - Django's way
        person = people.filter(pk=principal.id, is_active=True).first()
        if person is None:
            raise InvalidToken("nobody")
        return person, principal

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a request without credential (RFC 6750 §3)."""
        return api_challenge()
