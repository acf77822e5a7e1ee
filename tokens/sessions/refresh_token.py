"""The refresh token's form: pure functions, no storage.

``base64url(session id ‖ generation ‖ HMAC-SHA-256(server key ‖ session secret, session id ‖ generation))``: 52 bytes,
70 characters. The server key is not in the database and the session secret is not in the settings, so neither alone
makes a token. It is deterministic: the same session and generation always give the same token. So every concurrent
refresh can be given the *same* successor.
"""

import hmac
from typing import NamedTuple
from uuid import UUID

from ironauth.infrastructure.core import base64url
from ironauth.infrastructure.crypto.master_keys import mac, register_purpose

PURPOSE = register_purpose("ironauth refresh token")
ID_BYTES = 16
GENERATION_BYTES = 4  # 2**32 refreshes; one each second for a 30-day session is 2.6 million
TOKEN_CHARACTERS = 70  # of 52 bytes, the MAC's 32 among them: 256 bits, ASVS 7.2.3 asks 128
SECRET_BYTES = 32  # the per-session secret


class ParsedRefreshToken(NamedTuple):
    """A refresh token taken apart; nothing is verified yet."""

    session_id: UUID
    generation: int
    mac: bytes


def mint(*, session_id: UUID, generation: int, secret: bytes, master_key_id: str) -> str:
    """Return the token of one generation of a session.

    Args:
        session_id: The session, which stands in the token in clear.
        generation: How often the session has been refreshed.
        secret: The session's random bytes.
        master_key_id: The master key that the session was opened under.

    Raises:
        MasterKeyMissingError: the session's master key has left the settings.
    """
    body = session_id.bytes + generation.to_bytes(GENERATION_BYTES, "big")
    return base64url.encode(body + _mac(body, secret, master_key_id))


def parse(token: str) -> ParsedRefreshToken | None:
    """Return the parts of ``token``, or None when it does not have the form of a refresh token.

    Only the canonical spelling is accepted: one token, one text.
    """
    raw = base64url.decode(token, TOKEN_CHARACTERS)
    if raw is None:
        return None
    generation = int.from_bytes(raw[ID_BYTES : ID_BYTES + GENERATION_BYTES], "big")
    return ParsedRefreshToken(UUID(bytes=raw[:ID_BYTES]), generation, raw[ID_BYTES + GENERATION_BYTES :])


def is_genuine(parsed: ParsedRefreshToken, *, secret: bytes, master_key_id: str) -> bool:
    """Return whether this server made the token for the session with this ``secret``; in constant time.

    Args:
        parsed: The token's parts, not yet judged.
        secret: The random bytes of the session that it names.
        master_key_id: The master key that the session was opened under.

    Raises:
        MasterKeyMissingError: the session's master key has left the settings.
    """
    body = parsed.session_id.bytes + parsed.generation.to_bytes(GENERATION_BYTES, "big")
    return hmac.compare_digest(parsed.mac, _mac(body, secret, master_key_id))


def _mac(body: bytes, secret: bytes, master_key_id: str) -> bytes:
    """Return the 32-byte authentication code of ``session id ‖ generation``."""
    return mac(PURPOSE, body, master_key_id, secret=secret)
