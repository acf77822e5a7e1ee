"""The token between asking for a code by e-mail and typing it: it says which code was asked for, and was asked here.

A ``stateless_token`` of the code's id and its expiry, 70 characters. Who asked for the code has it, and nobody else: a
code that somebody is talked out of is worth nothing without it.
"""

from typing import Final
from uuid import UUID

from accounts.outbox import tokens as email_tokens
from accounts.outbox.tokens import Purpose
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto import stateless_token
from ironauth.infrastructure.crypto.master_keys import register_purpose

_KEY: Final = register_purpose("ironauth token of an e-mail code")
ID_BYTES: Final = 16
EXPIRY_BYTES: Final = 4  # until 2106
#: Seconds that a message may be on its way before the life of its code begins.
DELIVERY_S: Final = 3_600


def mint(code_id: UUID) -> str:
    """Return the token of a code that was just asked for."""
    expires_at = int(clock.unix() + DELIVERY_S + email_tokens.life(Purpose.SIGN_IN).total_seconds())
    return stateless_token.mint(_KEY, code_id.bytes + expires_at.to_bytes(EXPIRY_BYTES, "big"))


def parse(token: str) -> UUID | None:
    """Return the id of the code; None when this server did not make the token, or it has expired."""
    body = stateless_token.parse(_KEY, token, ID_BYTES + EXPIRY_BYTES)
    if body is None or clock.unix() >= int.from_bytes(body[ID_BYTES:], "big"):
        return None
    return UUID(bytes=body[:ID_BYTES])
