"""Who is behind an authenticated request: what a verified access token and its live session amount to."""

from uuid import UUID

import msgspec

from accounts.users.outputs import ActingOut, UserOut


class ActiveOrganization(msgspec.Struct, frozen=True, gc=False):
    """The organization that a session acts for, and the person's role there."""

    id: UUID
    name: str
    slug: str
    role: str

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the person there, as tokens list them."""
        return (self.role,)


def organization_tag(organization_id: UUID) -> str:
    """Return the tag of cached entries that depend on an organization."""
    return f"org:{organization_id}"


class Principal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A signed-in person and the session they act through; stands in for Django's user on the API lane.

    Attributes:
        user: The person as of the last time the session was confirmed.
        subject: Who they are to the token's client, which may not know their id.
        session_id: The session.
        client_id: The client that the token was given to.
        scope: What the token allows (RFC 6749 §3.3).
        jti: The token's id.
        exp: When the token ends; unix seconds.
        epoch: The user's session epoch when the session was last confirmed.
        digest: The SHA-256 of the one token text this was made from.
        authenticated_at: When the person last proved who they are; unix seconds.
        amr: How they proved it, as in RFC 8176 §1.
        jkt: The thumbprint of the key that alone may use the token (RFC 9449); "" for none.
        x5t: The thumbprint of the certificate that alone may use it (RFC 8705); "" for none.
        delegated: A client acts for them with a token it got in exchange (RFC 8693 §4.1).
        acting: The member of staff who is signed in as them; such a principal is in no cache.
        administration: The scopes of the administration that the token's client may use for them; all, for a token
            with the scope ``account``, which need not be named.
        organization: What the token says of the organization that they act for; None where it names none.
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
    x5t: str = ""
    delegated: bool = False
    acting: ActingOut | None = None
    administration: frozenset[str] = frozenset()
    organization: ActiveOrganization | None = None

    @property
    def is_bound(self) -> bool:
        """Whether the text of its token alone lets nobody in."""
        return bool(self.jkt or self.x5t)

    @property
    def is_authenticated(self) -> bool:
        """Always True: without a valid token there is no principal."""
        return True

    @property
    def is_anonymous(self) -> bool:
        """Always False."""
        return False

    @property
    def is_machine(self) -> bool:
        """Always False: a person is behind it."""
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
