"""Who is behind a request, as the views of this application read it."""

import uuid
from typing import Protocol

from accounts.users.outputs import ActingOut, UserOut
from ironauth.infrastructure.api.views import ApiRequest


class SignedIn(Protocol):
    """What this application reads of the person behind a request; tokens provide it."""

    @property
    def id(self) -> uuid.UUID:
        """The user's id."""

    @property
    def session_id(self) -> uuid.UUID:
        """The session the request belongs to."""

    @property
    def epoch(self) -> int:
        """The user's session epoch when the session was last confirmed."""

    @property
    def authenticated_at(self) -> int:
        """When they last proved who they are; unix seconds."""

    @property
    def user(self) -> UserOut:
        """The user as of the last time the session was confirmed."""

    @property
    def acting(self) -> ActingOut | None:
        """The member of staff who is signed in as them; None for the person themselves."""


def signed_in(request: ApiRequest) -> SignedIn:
    """Return the person behind the request."""
    who: SignedIn = request.auth
    return who
