"""The token between password and second factor: it says itself whose password was right, so no row is written for it.

``base64url(id ‖ user id ‖ session epoch ‖ expiry ‖ HMAC-SHA-256(server key, all of that))``: 76 bytes, 102 characters.
It opens nothing by itself, dies after five minutes, with the password it was given for (which raises the epoch), and
with the session it has opened (``infrastructure.once``).
"""

import hashlib
import hmac
import os
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from accounts.outputs import Authenticated
from ironauth.infrastructure import clock, token_text
from ironauth.infrastructure.master_keys import derived_key, newest_master_key_id

LIFE_S: Final = 300  # seconds; five minutes: time to find the phone, or the printed codes
ID_BYTES: Final = 16
EPOCH_BYTES: Final = 8
EXPIRY_BYTES: Final = 4  # until 2106
MAC_BYTES: Final = 32  # HMAC-SHA-256: 256 bits
BODY_BYTES: Final = 2 * ID_BYTES + EPOCH_BYTES + EXPIRY_BYTES
TOKEN_CHARACTERS: Final = 102  # ceil(76 * 4 / 3), unpadded
#: What `once` knows these tokens by.
ONCE: Final = "mfa"


class MfaTicket(NamedTuple):
    """A genuine token that has not expired. ``expires_at``: the unix second from which it is refused."""

    id: UUID
    user_id: UUID
    session_epoch: int
    expires_at: int


def mint(who: Authenticated) -> str:
    """Return a new token for somebody whose password was just right."""
    expires_at = int(clock.unix()) + LIFE_S
    body = b"".join(
        (
            os.urandom(ID_BYTES),
            who.id.bytes,
            who.session_epoch.to_bytes(EPOCH_BYTES, "big"),
            expires_at.to_bytes(EXPIRY_BYTES, "big"),
        )
    )
    return token_text.encode(body + _mac(body, newest_master_key_id()))


def parse(token: str) -> MfaTicket | None:
    """Return what the token says; None when this server did not make it, or it has expired.

    Only the canonical spelling is accepted: one token, one text. Whether it is used up, or its user has changed, is
    for the database to say.
    """
    raw = token_text.decode(token, TOKEN_CHARACTERS)
    if raw is None:
        return None
    body, mac = raw[:BODY_BYTES], raw[BODY_BYTES:]
    # It names no master key: it outlives a change of them by five minutes, and there are few.
    if not any(hmac.compare_digest(mac, _mac(body, key_id)) for key_id in settings.IRONAUTH_MASTER_KEYS):
        return None
    expires_at = int.from_bytes(body[-EXPIRY_BYTES:], "big")
    if clock.unix() >= expires_at:
        return None
    epoch = int.from_bytes(body[2 * ID_BYTES : -EXPIRY_BYTES], "big")
    return MfaTicket(UUID(bytes=body[:ID_BYTES]), UUID(bytes=body[ID_BYTES : 2 * ID_BYTES]), epoch, expires_at)


def _mac(body: bytes, master_key_id: str) -> bytes:
    return hmac.digest(derived_key(master_key_id, "ironauth mfa token"), body, hashlib.sha256)
