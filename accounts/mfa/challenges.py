"""Challenges of passkey ceremonies, kept by the client: asking for one stores nothing.

The client gets a token, ``base64url(id ‖ end ‖ user id ‖ HMAC-SHA-256(server key, purpose ‖ the rest))``, and
brings it back with the authenticator's answer. What the authenticator signs is the token's SHA-256: unknown to
everybody before the token is made, another one for each token, and no way back to it. A token is used once
(``ironauth.infrastructure.once``), by whoever acts on the answer and in the same transaction.
"""

import enum
import hashlib
import hmac
import struct
import uuid
from typing import Final, NamedTuple

from django.conf import settings

from ironauth.infrastructure import clock, token_text
from ironauth.infrastructure.ids import new_id
from ironauth.infrastructure.master_keys import derived_key, newest_master_key_id

LIFE_S: Final = 300  # seconds; WebAuthn Level 3 §15.1 recommends 300 to 600 where the user is to be verified
_BODY: Final = struct.Struct(">16sQ16s")  # id, unix second of its end, user id
_CHARACTERS: Final = 96  # 72 bytes * 4 / 3: no padding, and one text for one token
_NOBODY: Final = uuid.UUID(int=0)


class Purpose(enum.StrEnum):
    """What an answer to the challenge is good for, and for nothing else."""

    REGISTER = "register"
    SIGN_IN = "sign_in"
    SECOND_FACTOR = "second_factor"
    STEP_UP = "step_up"


class Challenge(NamedTuple):
    """A challenge this server made. ``value``: what the authenticator signs. ``user_id``: None before it is known.

    ``expires_at``: the unix second from which it is refused.
    """

    id: uuid.UUID
    user_id: uuid.UUID | None
    expires_at: int
    value: bytes


def mint(purpose: Purpose, user_id: uuid.UUID | None = None) -> tuple[str, bytes]:
    """Return a new challenge's token, and what the authenticator is to sign. ``user_id``: who alone may answer it."""
    body = _BODY.pack(new_id().bytes, int(clock.unix()) + LIFE_S, (user_id or _NOBODY).bytes)
    token = body + _mac(newest_master_key_id(), purpose, body)
    return token_text.encode(token), hashlib.sha256(token).digest()


def parse(token: str, purpose: Purpose) -> Challenge | None:
    """Return the challenge of a token this server made for ``purpose`` less than ``LIFE_S`` ago; None for any other.

    Says nothing about whether it was used: see ``once``.
    """
    raw = token_text.decode(token, _CHARACTERS)
    if raw is None:
        return None
    body, mac = raw[: _BODY.size], raw[_BODY.size :]
    # Any master key: a rotation ends no ceremony.
    if not any(hmac.compare_digest(mac, _mac(key_id, purpose, body)) for key_id in settings.IRONAUTH_MASTER_KEYS):
        return None
    challenge_id, expires_at, user_id = _BODY.unpack(body)
    if clock.unix() >= expires_at:
        return None
    user = uuid.UUID(bytes=user_id)
    value = hashlib.sha256(raw).digest()
    return Challenge(uuid.UUID(bytes=challenge_id), user if user != _NOBODY else None, expires_at, value)


def _mac(master_key_id: str, purpose: Purpose, body: bytes) -> bytes:
    """Return the 32-byte authentication code of ``purpose ‖ body``; the body has a fixed length."""
    key = derived_key(master_key_id, "ironauth passkey challenge")
    return hmac.digest(key, purpose.value.encode() + body, hashlib.sha256)
