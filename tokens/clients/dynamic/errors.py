"""What the rooms of strangers' clients refuse."""

from http import HTTPStatus
from typing import ClassVar

from tokens.clients.errors import OAuthError


class TooManyClients(OAuthError):
    """There are as many unverified clients as IRONAUTH_REGISTRATION_MOST allows."""

    status: ClassVar[int] = HTTPStatus.SERVICE_UNAVAILABLE
    error = "temporarily_unavailable"
    detail = (
        "Too many applications have registered themselves here: try again tomorrow, or ask the people who run this."
    )
