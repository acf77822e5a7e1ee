"""Tokens for which no row is written, with a MAC that only this server can make.

A token is ``base64url(body ‖ HMAC-SHA-256(server key, context ‖ body))``, under the newest master key,
and accepted under any: it names no key, for it outlives a change of them by minutes, and there are few. What a body
means, when it ends and whether it was used (``db.single_use``) is its owner's to say.
"""

from ironauth.infrastructure.core import base64url
from ironauth.infrastructure.crypto.master_keys import MAC_BYTES, Purpose, is_mac, mac


def mint(purpose: Purpose, body: bytes, context: bytes = b"") -> str:
    """Return the token of ``body``.

    Args:
        purpose: Of the key.
        body: What the token says; of the same length for every token of ``purpose``.
        context: What the token is good for and does not say; it opens under the same one only.
    """
    return base64url.encode(body + mac(purpose, context + body))


def parse(purpose: Purpose, token: str, body_bytes: int, context: bytes = b"") -> bytes | None:
    """Return the body, ``body_bytes`` long; None when this server did not make the token for this purpose and context.

    Only the canonical spelling is accepted: one token, one text.

    Args:
        purpose: What the token must have been made for.
        token: The text as it was received.
        body_bytes: The only length of the body that is accepted.
        context: What the token was bound to without carrying it.
    """
    raw = base64url.decode(token, -(-(body_bytes + MAC_BYTES) * 4 // 3))
    if raw is None:
        return None
    body = raw[:body_bytes]
    return body if is_mac(raw[body_bytes:], purpose, context + body) else None
