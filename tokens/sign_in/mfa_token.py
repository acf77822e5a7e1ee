"""The token between password and second factor: it names the person whose password was right, so no row is written.

A ``stateless_token`` of id, user id, session epoch and expiry: 102 characters. It opens nothing by itself. It dies
after five minutes, with the password it was given for (a new one raises the epoch), and with the session it has opened
(``infrastructure.db.single_use``).
"""

import os
from typing import Final, NamedTuple
from uuid import UUID

from accounts.users.services import Authenticated
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto import stateless_token
from ironauth.infrastructure.crypto.master_keys import register_purpose
from tokens.sessions.models import BY_EMAIL, BY_PASSWORD, BY_UPSTREAM

LIFE_S: Final = 300  # seconds; five minutes: time to find the phone, or the printed codes
ID_BYTES: Final = 16
EPOCH_BYTES: Final = 8
EXPIRY_BYTES: Final = 4  # until 2106
BODY_BYTES: Final = 2 * ID_BYTES + EPOCH_BYTES + EXPIRY_BYTES
_KEY: Final = register_purpose("ironauth mfa token")
#: What stands for a code that was mailed, in place of a password.
_EMAIL_KEY: Final = register_purpose("ironauth mfa token after an e-mail code")
_UPSTREAM_KEY: Final = register_purpose("ironauth mfa token after another provider")
_KEYS: Final = {BY_PASSWORD: _KEY, BY_EMAIL: _EMAIL_KEY, BY_UPSTREAM: _UPSTREAM_KEY}
_ANY: Final = UUID(int=0)  # no provider is named
#: What `once` knows these tokens by.
ONCE: Final = "mfa"


class MfaTicket(NamedTuple):
    """A genuine token that has not expired.

    Attributes:
        id: Names it once it is used up.
        user_id: The person whose first proof was right.
        session_epoch: The epoch that it was right under.
        expires_at: The unix second from which it is refused.
        first: What was proved first, as in ``amr``.
        provider_id: The provider that said it; None where any will do, or none did.
    """

    id: UUID
    user_id: UUID
    session_epoch: int
    expires_at: int
    first: str = BY_PASSWORD
    provider_id: UUID | None = None


def mint(who: Authenticated, first: str = BY_PASSWORD, provider_id: UUID | None = None) -> str:
    """Return a new token for somebody whose password, or whose e-mail code, was just right.

    Args:
        who: Whose first proof was right.
        first: What that proof was, as an ``amr``.
        provider_id: The provider that said it, of a proof by one.
    """
    expires_at = int(clock.unix()) + LIFE_S
    body = b"".join(
        (
            os.urandom(ID_BYTES),
            who.id.bytes,
            who.session_epoch.to_bytes(EPOCH_BYTES, "big"),
            expires_at.to_bytes(EXPIRY_BYTES, "big"),
        )
    )
    if first == BY_UPSTREAM:
        body = (provider_id or _ANY).bytes + body
    return stateless_token.mint(_KEYS[first], body)


def subject_of(token: str) -> tuple[UUID, int]:
    """Return whose token it is, and the epoch that the first proof was right under.

    Args:
        token: One that was made just now.
    """
    ticket = parse(token)
    assert ticket is not None
    return ticket.user_id, ticket.session_epoch


def parse(token: str) -> MfaTicket | None:
    """Return what the token holds; None when this server did not make it, or it has expired.

    Only the database knows whether it is used up, or its user has changed.
    """
    judged = ((first, stateless_token.parse(key, token, _bytes_of(first))) for first, key in _KEYS.items())
    first, body = next(((first, body) for first, body in judged if body is not None), ("", None))
    if body is None:
        return None
    provider = UUID(bytes=body[:ID_BYTES]) if first == BY_UPSTREAM else _ANY
    body = body[-BODY_BYTES:]
    expires_at = int.from_bytes(body[-EXPIRY_BYTES:], "big")
    if clock.unix() >= expires_at:
        return None
    epoch = int.from_bytes(body[2 * ID_BYTES : -EXPIRY_BYTES], "big")
    return MfaTicket(
        UUID(bytes=body[:ID_BYTES]),
        UUID(bytes=body[ID_BYTES : 2 * ID_BYTES]),
        epoch,
        expires_at,
        first,
        provider if provider != _ANY else None,
    )


def _bytes_of(first: str) -> int:
    """Return how long a body is: after another provider, that one's id comes first."""
    return BODY_BYTES + ID_BYTES if first == BY_UPSTREAM else BODY_BYTES
