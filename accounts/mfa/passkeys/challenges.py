"""Challenges of passkey ceremonies, kept by the client: asking for one stores nothing.

The client gets a token (``stateless_token``) with id, end and user id. It is good for one purpose, which it does not
name. The client brings it back with the authenticator's answer. The authenticator signs the SHA-256 of the token's
bytes: nobody knows it before the token is made, each token has another one, and it does not lead back to the token. A
token is used once (``ironauth.infrastructure.db.single_use``), in the transaction of the act that the answer is for.
"""

import base64
import enum
import hashlib
import struct
import uuid
from typing import Final, NamedTuple

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.crypto import stateless_token
from ironauth.infrastructure.crypto.master_keys import register_purpose

LIFE_S: Final = 300  # seconds; WebAuthn Level 3 §15.1 recommends 300 to 600 where the user is to be verified
_BODY: Final = struct.Struct(">16sQ16s")  # id, unix second of its end, user id
_KEY: Final = register_purpose("ironauth passkey challenge")
_NOBODY: Final = uuid.UUID(int=0)


class Purpose(enum.StrEnum):
    """What an answer to the challenge is good for, and for nothing else."""

    REGISTER = "register"
    SIGN_IN = "sign_in"
    SECOND_FACTOR = "second_factor"
    STEP_UP = "step_up"


class Challenge(NamedTuple):
    """A challenge this server made.

    Attributes:
        id: Names it once it is used up.
        user_id: The person who has to answer it; None before that is known.
        expires_at: The unix second from which it is refused.
        value: What the authenticator signs.
    """

    id: uuid.UUID
    user_id: uuid.UUID | None
    expires_at: int
    value: bytes


def mint(purpose: Purpose, user_id: uuid.UUID | None = None) -> tuple[str, bytes]:
    """Return a new challenge's token, and what the authenticator is to sign.

    Args:
        purpose: What an answer is good for.
        user_id: Who alone may answer it.
    """
    body = _BODY.pack(new_id().bytes, int(clock.unix()) + LIFE_S, (user_id or _NOBODY).bytes)
    token = stateless_token.mint(_KEY, body, purpose.value.encode())
    return token, _value(token)


def parse(token: str, purpose: Purpose) -> Challenge | None:
    """Return the challenge of a token this server made for ``purpose`` less than ``LIFE_S`` ago; None for any other.

    Says nothing about whether it was used: see ``db.single_use``.

    Args:
        token: The text as it was received.
        purpose: What the challenge must have been made for.
    """
    body = stateless_token.parse(_KEY, token, _BODY.size, purpose.value.encode())
    if body is None:
        return None
    challenge_id, expires_at, user_id = _BODY.unpack(body)
    if clock.unix() >= expires_at:
        return None
    user = uuid.UUID(bytes=user_id)
    return Challenge(uuid.UUID(bytes=challenge_id), user if user != _NOBODY else None, expires_at, _value(token))


def _value(token: str) -> bytes:
    """Return what the authenticator signs, of a token that was made here; its length needs no padding."""
    return hashlib.sha256(base64.urlsafe_b64decode(token)).digest()
