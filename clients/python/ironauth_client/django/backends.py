"""The authentication backend of people who sign in at the server."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from ironauth_client.django import identities
from ironauth_client.tokens import Claims


class IronAuthBackend(ModelBackend):
    """Takes the verified claims of an ID token instead of a name and a password; rights are Django's own."""

    def authenticate(  # type: ignore[override] # backends choose their own credentials
        self, request: HttpRequest | None, *, ironauth_claims: Claims | None = None
    ) -> Any:
        """Return the user of the claims; None without claims, or for a user who is not active."""
        if ironauth_claims is None:
            return None
        user = identities.find_or_create(ironauth_claims).user
        return user if self.user_can_authenticate(user) else None
