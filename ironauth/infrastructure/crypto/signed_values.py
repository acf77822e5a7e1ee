"""What this server puts into Redis carries a MAC: who can write there can make it forget entries, not believe new ones.

Without it, a writer could revive a revoked session, and pickled values would let them run code here.
"""

import hmac

from django.conf import settings

from ironauth.infrastructure.crypto.master_keys import MAC_BYTES, keyed_mac


class NotOurs(ValueError):
    """The value was not written by a server with this SECRET_KEY, or was changed since."""


def seal(purpose: bytes, payload: bytes) -> bytes:
    """Return ``payload`` behind its MAC; ``purpose`` must be the same when it is opened.

    Args:
        purpose: Keeps kinds of values apart.
        payload: Signed, not encrypted.
    """
    return _mac(purpose, payload) + payload


def unseal(purpose: bytes, sealed: bytes) -> bytes:
    """Return the payload of ``seal``.

    Args:
        purpose: The same as when it was sealed.
        sealed: The bytes as they were read.

    Raises:
        NotOurs: The MAC does not fit.
    """
    payload = sealed[MAC_BYTES:]
    if not hmac.compare_digest(sealed[:MAC_BYTES], _mac(purpose, payload)):
        raise NotOurs("A value in Redis carries no valid MAC")
    return payload


def _mac(purpose: bytes, payload: bytes) -> bytes:
    # A key of its own for each purpose, so that a value cannot be passed off for one of another kind or name.
    return keyed_mac(keyed_mac(settings.SECRET_KEY.encode(), b"ironauth redis " + purpose), payload)
