"""Recovery codes that people bring from another system: the SHA-512 digest of each, kept sealed and recognised.

The digest is sealed like the secret of an app, bound to its person: the database alone does not let anybody try codes.
Codes of 12 characters and more (Keycloak: of 34, 61 bits) are not guessed. Shorter ones (allauth: 8 digits, 26 bits)
are judged only while the count of the app's wrong codes has room, which six digits need too.
"""

import hashlib
import hmac
import uuid
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

from accounts.mfa.recovery.models import RecoveryCode
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError, newest_master_key_id, register_purpose
from ironauth.infrastructure.crypto.resealing import Resealed, reseal_rows
from ironauth.infrastructure.crypto.sealing import SealBrokenError

MOST: Final = 32  # codes of one person; each wrong one is compared with all of them
DIGEST_BYTES: Final = 64  # SHA-512
LEAST_CHARACTERS: Final = 8  # of digits 26 bits; SP 800-63B-4 §3.1.2.2 asks for 20, and for a count below 64
UNGUESSED_CHARACTERS: Final = 12
MOST_CHARACTERS: Final = 64
#: How their selectors begin; no selector of our own has this character.
MARK: Final = "~"
_PURPOSE: Final = register_purpose("ironauth recovery code of another system")
_FORM: Final = "sealed"
_LEFT_OUT: Final = str.maketrans("", "", " -\t\u2010\u2011\u2013")  # as typed, copied and printed


def digest_of(typed: str) -> bytes | None:
    """Return the digest of a code as typed or as another system has it; None for what is too short or is none."""
    code = _bare(typed)
    if not LEAST_CHARACTERS <= len(code) <= MOST_CHARACTERS or not (code.isascii() and code.isalnum()):
        return None
    return hashlib.sha512(code.encode()).digest()


def is_short(typed: str) -> bool:
    """Tell whether a code can be one that is guessed, where nobody counts."""
    return LEAST_CHARACTERS <= len(_bare(typed)) < UNGUESSED_CHARACTERS


def rows_of(user_id: uuid.UUID, digests: Sequence[bytes]) -> list[RecoveryCode]:
    """Return the unsaved codes of an account that comes from elsewhere.

    Args:
        user_id: The account, which has none yet.
        digests: SHA-512 of each code in capitals, without spaces and dashes; at most ``MOST``.
    """
    return [
        RecoveryCode(user_id=user_id, selector=f"{MARK}{number:03}", encoded=_sealed(user_id, digest))
        for number, digest in enumerate(digests)
    ]


def opened(user_id: uuid.UUID, encoded: str) -> bytes:
    """Return the digest of a stored code.

    Args:
        user_id: Whose it is.
        encoded: As `rows_of` has stored it.

    Raises:
        MasterKeyMissingError: Its master key has left the settings.
        SealBrokenError: It was damaged, or is another person's.
    """
    _form, key_id, sealed = encoded.split("$")
    return sealing.unseal(key_id, b64decode(sealed), _PURPOSE, user_id.bytes)


def is_right(user_id: uuid.UUID, encoded: str, digest: bytes) -> bool:
    """Tell whether a stored code has this digest; one that does not open has none.

    Args:
        user_id: Whose it is.
        encoded: As `rows_of` has stored it.
        digest: What `digest_of` returned for the typed code.
    """
    try:
        return hmac.compare_digest(opened(user_id, encoded), digest)
    except (MasterKeyMissingError, SealBrokenError):
        return False


def reseal(*, batch: int) -> Resealed:
    """Seal every digest under the newest master key, ``batch`` rows in a transaction; safe at any time."""
    brought = RecoveryCode.objects.filter(selector__startswith=MARK)
    current = f"{_FORM}${newest_master_key_id()}$"
    return reseal_rows(brought.exclude(encoded__startswith=current), _reseal, batch=batch)


def _bare(typed: str) -> str:
    """Return a code in capitals, without spaces and dashes."""
    return typed[: 2 * MOST_CHARACTERS].translate(_LEFT_OUT).upper()


def _sealed(user_id: uuid.UUID, digest: bytes) -> str:
    key_id, sealed = sealing.seal(digest, _PURPOSE, user_id.bytes)
    return f"{_FORM}${key_id}${b64encode(sealed).decode()}"


def _reseal(row: RecoveryCode) -> bool:
    anew = _sealed(row.user_id, opened(row.user_id, row.encoded))
    return RecoveryCode.objects.filter(pk=row.pk, encoded=row.encoded).update(encoded=anew) > 0
