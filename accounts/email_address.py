"""The e-mail address as an identity: what is accepted, what is stored, and when two addresses are one account.

Rule
    * An address is *normalised* to NFC with surrounding spaces removed, and stored as the person wrote it.
    * Two addresses are one account when their *folded* forms are equal. Folding replaces a character by its lower
      case only where lower and upper case are one character each and lead back to each other, so it unites ``Á``
      with ``á`` and never ``ß`` with ``ss``, a dotless i with ``i``, or the Kelvin sign with ``k`` (CVE-2019-19844).
    * Addresses with compatibility characters (NFKC differs from NFC), invisible characters, control characters, or
      anything but letters, marks and digits outside ASCII are refused. What is left looks like what it is;
      look-alikes of other scripts (a Cyrillic a) make accounts of their own.

The local part is folded too, although RFC 5321 §2.4 lets a host tell case apart: no large provider does, and people
do not. ``+tag`` and dots are kept: what they mean is the provider's business.
"""

import re
import unicodedata
import uuid
from datetime import datetime
from typing import Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from django.utils.translation import gettext

MAX_LENGTH: Final = 254  # characters; RFC 5321 §4.5.3.1.3 (path of 256 octets less its brackets)
MAX_LOCAL_OCTETS: Final = 64  # in UTF-8; RFC 5321 §4.5.3.1.1, RFC 6531 §3.3
# Characters before NFC: no character an address may hold has a longer decomposition than four.
MAX_RAW_LENGTH: Final = 4 * MAX_LENGTH
# Longest folded form: folding is one to one, and recomposition afterwards lengthens no known character by more.
MAX_KEY_LENGTH: Final = 320

# The three characters whose NFC is a *different, ASCII* character: GREEK QUESTION MARK, GREEK VARIA, KELVIN SIGN.
# Normalisation leaves them as they are, so that no step before validation can turn one address into another.
_ASCII_BY_NFC: Final = "\u037e\u1fef\u212a"
_SPLIT: Final = re.compile(f"([{_ASCII_BY_NFC}])")
# Default_Ignorable_Code_Point among letters and marks (Unicode 16, DerivedCoreProperties.txt): drawn as nothing.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_NON_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_ASCII_VALIDATOR: Final = EmailValidator()
#: Addresses of accounts that are being deleted end in it, and no other may. RFC 6761 §6.4: no mail goes there.
STAND_IN_DOMAIN: Final = "deleted.invalid"


def normalise(email: str) -> str:
    """Return ``email`` in NFC without surrounding spaces; other white space is kept, and refused by ``validate``.

    What is far too long comes back as it is, for ``validate`` to refuse: ordering thousands of combining marks takes
    quadratic time (0.75 s for a body of 63 kB), and this runs on the event loop.
    """
    if len(email) > MAX_RAW_LENGTH:
        return email
    parts = _SPLIT.split(email.strip(" "))
    return "".join(part if part in _ASCII_BY_NFC else unicodedata.normalize("NFC", part) for part in parts)


def _lower(char: str) -> str:
    """Return the lower case of ``char`` where that is one character whose upper case is ``char`` again."""
    low = char.lower()
    return low if len(low) == 1 and low.upper() == char else char


def fold(email: str) -> str:
    """Return the key under which an address is unique; total and idempotent."""
    return normalise("".join(map(_lower, normalise(email))))


def is_stand_in(email: str) -> bool:
    """Tell whether this is no address but what an account has in place of one while it is being deleted."""
    return email.endswith(f"@{STAND_IN_DOMAIN}")


def for_mail(email: str) -> str:
    """Return ``email`` with its domain in ASCII, each label as IDNA 2008 writes it (RFC 5891 §4.4): nothing is mapped.

    Python's codec, which mail libraries use, is IDNA 2003's: it makes ``ss`` of ``ß`` and sends what is meant for
    ``straße.de`` to anybody who has ``strasse.de``.
    """
    local, at, domain = email.rpartition("@")
    labels = [
        label if label.isascii() else f"xn--{fold(label).encode('punycode').decode()}" for label in domain.split(".")
    ]
    return f"{local}{at}{'.'.join(labels)}"


def lookup_key(email: str) -> str:
    """Return the key to look an account up by; empty, which matches none, for what can never have been registered."""
    try:
        validate(normalise(email))
    except ValidationError:
        return ""
    return fold(email)


def validate_new(email: str) -> None:
    """Refuse what no account may have from now on: what ``validate`` refuses, and a local part of over 64 octets.

    Accounts of earlier releases may have longer ones, and their people go on signing in.

    Raises:
        ValidationError: As ``validate`` does.
    """
    validate(email)
    if len(email.rpartition("@")[0].encode()) > MAX_LOCAL_OCTETS:
        message = gettext("The part of an e-mail address before the @ has at most {most} octets (bytes in UTF-8).")
        raise ValidationError(message.format(most=MAX_LOCAL_OCTETS), code="email_too_long")


def validate(email: str) -> None:
    """Refuse what cannot be an account's address. Expects the output of ``normalise``.

    Raises:
        ValidationError: Django's, with code ``email_too_long``, ``email_character`` or ``email_invalid``.
    """
    if len(email) > MAX_LENGTH:
        message = gettext("An e-mail address has at most {most} characters.").format(most=MAX_LENGTH)
        raise ValidationError(message, code="email_too_long")
    if bad := next((char for char in email if not _acceptable(char)), None):
        message = gettext("The character {character} is not accepted in an e-mail address: type it without.")
        raise ValidationError(message.format(character=f"U+{ord(bad):04X}"), code="email_character")
    if unicodedata.normalize("NFKC", email) != unicodedata.normalize("NFC", email):
        message = gettext(
            "The e-mail address contains a character that imitates another one: type it with plain letters."
        )
        raise ValidationError(message, code="email_character")
    local, at, domain = email.rpartition("@")
    # Django's validator knows ASCII local parts only; letters beyond were judged above (RFC 6531 §3.3).
    taken = domain.lower() == STAND_IN_DOMAIN
    if not at or taken or not _matches(f"{_NON_ASCII.sub('a', local)}@{domain}"):
        raise ValidationError(gettext("Enter an e-mail address such as name@example.com."), code="email_invalid")


def describe(email: str, deleted_at: datetime | None) -> str:
    """Return what people are to read for the address of an account: the address, unless that is a stand-in.

    Args:
        email: The address as stored, which is a stand-in while and after the account is deleted.
        deleted_at: When the deletion was asked for; None where that is not known.
    """
    if not is_stand_in(email):
        return email
    return f"Deleted account, since {deleted_at:%Y-%m-%d}" if deleted_at else "Deleted account"


def is_proof_required() -> bool:
    """Tell whether the owner of an address has to prove it here before the account opens."""
    return bool(settings.IRONAUTH_EMAIL_VERIFICATION == "required")


def is_proof_awaited(email_verified_at: datetime | None) -> bool:
    """Tell whether no password is right yet for the account with this address.

    Anybody may sign up with an address of somebody else. An answer of its own to the password of such an account would
    tell that the sign-up made it, hence that the address had no account before.
    """
    return email_verified_at is None and is_proof_required()


def stand_in(user_id: uuid.UUID) -> str:
    """Return what stands for the address of an account that is being deleted; no other account can have it."""
    return f"{user_id}@{STAND_IN_DOMAIN}"


def _acceptable(char: str) -> bool:
    """Tell whether ``char`` may stand in an address: printable ASCII, or a visible letter, mark or digit beyond."""
    if char < "\x80":
        return "\x20" <= char < "\x7f"
    if char in _ASCII_BY_NFC or _INVISIBLE.match(char):
        return False
    return unicodedata.category(char)[0] in "LMN"


def _matches(email: str) -> bool:
    """Tell whether Django's validator accepts ``email``."""
    try:
        _ASCII_VALIDATOR(email)
    except ValidationError:
        return False
    return True
