"""What an access token says (RFC 9068 §2.2)."""

from uuid import UUID

import msgspec


class AccessClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims of one access token; times in unix seconds.

    ``sid`` names the session, ``epoch`` is the user's session epoch at issue: raising the epoch ends every token
    at once. ``nbf`` is honoured when present, never issued: a client whose clock runs behind would refuse the token.
    ``aud`` is one exact string, never a list.
    """

    iss: str
    sub: UUID
    aud: str
    client_id: str
    iat: int
    exp: int
    jti: str
    sid: UUID
    scope: str
    epoch: int
    roles: tuple[str, ...]
    nbf: int | None = None
