"""What an access token says (RFC 9068 §2.2)."""

from uuid import UUID

import msgspec


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who acts for the person (RFC 8693 §4.1): a client, and the one that acted before it."""

    sub: str
    act: "Actor | None" = None


class AccessClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims of one access token; times in unix seconds.

    ``sid`` names the session, ``epoch`` is the user's session epoch at issue: raising the epoch ends every token
    at once. ``nbf`` is honoured when present, never issued: a client whose clock runs behind would refuse the token.
    ``aud`` is one exact string, never a list.

    A token that a client has for itself (RFC 6749 §4.4) names no session: ``sid`` is missing, ``sub`` is the client.
    ``cnf``: the key that alone may use the token, ``{"jkt": thumbprint}`` (RFC 9449 §6.1). ``act``: who acts for
    ``sub``.
    """

    iss: str
    sub: UUID
    aud: str
    client_id: str
    iat: int
    exp: int
    jti: str
    scope: str
    epoch: int
    roles: tuple[str, ...]
    sid: UUID | None = None
    nbf: int | None = None
    cnf: dict[str, str] | None = None
    act: Actor | None = None

    @property
    def holders(self) -> tuple[str, ...]:
        """The client that has the token, and those that acted for the person before it."""
        found, act = [self.client_id], self.act
        while act is not None:
            found.append(act.sub)
            act = act.act
        return tuple(dict.fromkeys(found))
