"""The two codes of a waiting device (RFC 8628 §3.2): one that it keeps, one that a person types elsewhere.

Neither is stored. The database has a SHA-256 of the device's code. The person's code is short, so the database has a
MAC of it, under a key that is not in the database.
"""

import re
import secrets
from typing import Final

from django.conf import settings

from ironauth.infrastructure.crypto.master_keys import mac, register_purpose

_PURPOSE: Final = register_purpose("ironauth user code")
DEVICE_CODE_BYTES: Final = 32  # 256 random bits
#: No vowels, so that no words come out, and nothing that looks like a digit (RFC 8628 §6.1).
LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
LENGTH: Final = 8  # 20 to the power of 8: 34.5 bits (RFC 8628 §5.1)
_TYPED: Final = re.compile(f"[{LETTERS}]{{{LENGTH}}}")
_BETWEEN: Final = re.compile(r"[\s._\u2010-\u2015-]+")  # the dash, and what telephones make of it
MAX_TYPED: Final = 64  # characters; more was pasted by mistake


def new_device_code() -> str:
    """Return what the device is to ask with."""
    return secrets.token_urlsafe(DEVICE_CODE_BYTES)


def new_user_code() -> str:
    """Return what the person is to type, without the dash."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def shown(user_code: str) -> str:
    """Return the code as people see it: XXXX-XXXX."""
    return f"{user_code[:4]}-{user_code[4:]}"


def typed(text: str) -> str | None:
    """Return the code somebody has typed, in whichever case and grouping; None for any other text."""
    if len(text) > MAX_TYPED:
        return None
    plain = _BETWEEN.sub("", text).upper()
    return plain if _TYPED.fullmatch(plain) else None


def stored(user_code: str, master_key_id: str | None = None) -> str:
    """Return what stands for the person's code in the database.

    Args:
        user_code: What the person types, normalised.
        master_key_id: The master key to use; None for the newest.
    """
    return mac(_PURPOSE, user_code.encode(), master_key_id).hex()


def stored_forms(user_code: str) -> list[str]:
    """Return all that may stand for the code: after a rotation of the master keys no device has to start again."""
    return [stored(user_code, key_id) for key_id in settings.IRONAUTH_MASTER_KEYS]
