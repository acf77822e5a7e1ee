"""Who is behind an authenticated request: what a verified access token and its live session amount to."""

from uuid import UUID

import msgspec

from accounts.users.outputs import UserOut


class Principal(msgspec.Struct, frozen=True):
    """A signed-in person and the session they act through; stands in for Django's user on the API lane.

    ``exp`` and ``authenticated_at``, when the person last proved who they are, in unix seconds; ``amr``: how, as in RFC
    8176 §1. ``subject``: who they are to the token's client, which may not know their id. ``digest`` is the SHA-256 of
    the one token text this was made from. ``jkt``: the key that alone may use it (RFC 9449), "" for none.
    ``delegated``: a client acts for them with a token it got in exchange (RFC 8693 §4.1).
    """

    user: UserOut
    subject: UUID
    session_id: UUID
    client_id: str
    scope: str
    jti: str
    exp: int
    epoch: int
    digest: bytes
    authenticated_at: int
    amr: str
    jkt: str = ""
    delegated: bool = False

    @property
    def is_authenticated(self) -> bool:
        """Always True: without a valid token there is no principal."""
        return True

    @property
    def is_anonymous(self) -> bool:
        """Always False."""
        return False

    @property
    def is_active(self) -> bool:
        """Whether the account was active when its session was last confirmed."""
        return self.user.is_active

    @property
    def is_staff(self) -> bool:
        """Whether the person may use the admin."""
        return self.user.is_staff

    @property
    def id(self) -> UUID:
        """The user's id."""
        return self.user.id

    @property
    def pk(self) -> UUID:
        """The user's id, under Django's name for it."""
        return self.user.id
