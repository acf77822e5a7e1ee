"""Clients that are a superuser's alone to make, to change and to give a secret to.

They act for people without asking them, on people's accounts, or on everybody's. With such a client's secret, or its
addresses, a caller could act as people with rights that the caller does not hold.
"""

from collections.abc import Iterable
from typing import Final

from ironauth.infrastructure.core.errors import FieldError
from tokens.clients.models import OAuthClient
from tokens.protocol import Scope

NOT_YOURS: Final = (
    "Only a superuser may do this: with it the application acts for everybody who signs in, superusers too. Ask one."
)
NOT_YOUR_MACHINE: Final = "Only a superuser may let an application administer. Ask one."


def problems_of(client: OAuthClient) -> Iterable[FieldError]:
    """Yield what of a client only a superuser may set, by field; nothing of a client that anybody may make.

    Args:
        client: The client as it would be.
    """
    if client.trusted:
        yield FieldError("trusted", "superuser_only", NOT_YOURS)
    if Scope.ACCOUNT in client.scopes:
        yield FieldError("scopes", "superuser_only", NOT_YOURS)
    if client.administers:
        yield FieldError("administers", "superuser_only", NOT_YOUR_MACHINE)


def is_superusers(client: OAuthClient) -> bool:
    """Return whether a client is a superuser's alone to change and to give another secret to."""
    return any(True for _ in problems_of(client))
