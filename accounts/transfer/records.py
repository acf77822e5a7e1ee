"""One person as a source describes them, and what of it cannot be taken over."""

import enum
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Self
from uuid import UUID

import msgspec

from accounts.passwords.formats.foreign import UnusableHashError
from accounts.passwords.formats.recognised import stored_form
from accounts.profile import FIELDS

_MILLISECONDS: Final = 10_000_000_000  # a number of seconds above it, of the year 2286, is one of milliseconds

#: Outcomes of importing a record; others are codes of ``Reason``.
CREATED: Final = "created"
UPDATED: Final = "updated"
UNCHANGED: Final = "already_imported"
IN_USE: Final = "in_use"  # imported before, and the person has signed in since: what they have is theirs


class _Coded(enum.StrEnum):
    """A stable code for reports and counts, with its words."""

    words: str

    def __new__(cls, code: str, words: str) -> Self:
        """Make the member of this code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.words = words
        return member


class Reason(_Coded):
    """Why a record was not imported."""

    MALFORMED = "malformed", "not of the form that this source has"
    NO_ID = "id_missing", "without an id"
    NO_EMAIL = "email_missing", "without an e-mail address"
    BAD_EMAIL = "email_invalid", "with an e-mail address that no account may have"
    TAKEN = "email_taken", "with the address of an account that is here already"
    DUPLICATE = "email_duplicate", "with the address of another person in the file, perhaps in another case"
    ID_DUPLICATE = "id_duplicate", "with the id of another person in the file"
    DELETED = "deleted", "deleted in the other system"


class Note(_Coded):
    """What of an imported person stays behind or keeps them out at first, and what comes along beside the password."""

    NO_PASSWORD = "no_password", "no password: they choose one by mail"
    HASH_UNKNOWN = UnusableHashError.UNKNOWN, "password hash of an unknown format: they choose a password by mail"
    HASH_MALFORMED = UnusableHashError.MALFORMED, "malformed password hash: they choose a password by mail"
    HASH_COSTS = UnusableHashError.COSTS, "password hash beyond the bounds of its costs: they choose one by mail"
    HASH_NOT_ALLOWED = UnusableHashError.NOT_ALLOWED, "salted SHA, which IRONAUTH_SALTED_SHA_HASHES=1 takes over"
    NAME_CHANGED = "name_changed", "name shortened, or without characters that a name may not have"
    PROFILE = "profile", "first or last name, user name or time zone that no account here may have"
    TOTP_UNSUPPORTED = "totp_unsupported", "authenticator app of another digest, length or period: they set it up anew"
    TOTP_SECRET = (
        "totp_secret_length",
        "authenticator app whose secret is under 80 or over 640 bits: they set it up anew",
    )
    FACTOR_UNSUPPORTED = "factor_unsupported", "a second factor that cannot be moved: they set it up anew"
    RECOVERY_CODES = "recovery_codes", "recovery codes of another digest, or over 32 of them: they make new ones"
    RECOVERY_CODES_SHORT = "recovery_codes_short", "recovery codes of under 8 or over 64 characters: they make new ones"
    RECOVERY_CODES_ALONE = "recovery_codes_alone", "recovery codes without the app that they stand in for"
    RECOVERY_CODES_BROUGHT = "recovery_codes_brought", "recovery codes that stay good here"
    IDENTITY = "identity", "an identity at a provider that --identities does not name: they link it anew"
    IDENTITY_FORM = "identity_form", "an identity of a form that this provider gives nobody here: they link it anew"
    IDENTITY_SECOND = "identity_second", "a second identity at the same provider"
    IDENTITY_TAKEN = "identity_taken", "an identity that another account has, which keeps it"
    IDENTITY_LINKED = "identity_linked", "an identity at another provider that signs in here"
    REQUIRED_ACTION = "required_action", "a duty there, such as choosing another password: ask it of them here"
    ATTRIBUTES = "attributes", "attributes, roles, groups or rights of staff"
    UNCONFIRMED = "unconfirmed", "an address that nobody has confirmed: they do it before they sign in"
    INACTIVE = "inactive", "deactivated there, and here: staff activate them"


_NOTES: Final[dict[str, Note]] = {note.value: note for note in Note}


class MalformedError(ValueError):
    """A record is not of the form its source has."""


class ToldIdentity(msgspec.Struct, frozen=True):
    """Who somebody is at a provider, as the source says it; ``issuer`` where it names that, else ""."""

    provider: str
    subject: str
    email: str = ""
    issuer: str = ""


class Link(msgspec.Struct, frozen=True):
    """An identity as a sign-in here has it: issuer and subject, at a provider that is configured."""

    provider_id: UUID
    issuer: str
    subject: str
    email: str


class OwnCode(msgspec.Struct, frozen=True):
    """A recovery code of another installation of ours: the beginning that finds it, and its hash."""

    selector: str
    encoded: str


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """One person as a source describes them.

    ``profile`` has the other values of ``accounts.profile``, as the source says them. ``password_hash`` is in the form
    that is stored here; ``totp_secret`` is the shared secret's bytes, for six digits of SHA-1 every 30 s.
    ``code_digests``: SHA-512 of each recovery code, in capitals without dashes. ``links``: those of
    ``identities`` that a provider here has. ``notes`` is what stays behind.
    """

    external_id: str
    email: str
    email_verified: bool = False
    name: str = ""
    profile: Mapping[str, Any] = msgspec.field(default_factory=dict)
    is_active: bool = True
    created_at: datetime | None = None
    password_hash: str | None = None
    totp_secret: bytes | None = None
    code_digests: tuple[bytes, ...] = ()
    own_codes: tuple[OwnCode, ...] = ()
    identities: tuple[ToldIdentity, ...] = ()
    links: tuple[Link, ...] = ()
    notes: frozenset[Note] = frozenset()


class Refused(msgspec.Struct, frozen=True):
    """A record that is not imported."""

    external_id: str
    reason: Reason


def note_of(error: UnusableHashError) -> frozenset[Note]:
    """Return what to say of somebody whose hash cannot be taken over."""
    return frozenset({_NOTES[error.code]})


def password_of(text: str | None) -> tuple[str | None, frozenset[Note]]:
    """Return a hash of another system in the form that is stored here, or none and why."""
    if not text:
        return None, frozenset({Note.NO_PASSWORD})
    try:
        return stored_form(text), frozenset()
    except UnusableHashError as error:
        return None, note_of(error)


def text(row: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that holds something, as text without surrounding spaces.

    Args:
        row: A record of the export.
        *names: Field names, in order of preference.
    """
    for name in names:
        value = row.get(name)
        if value is not None and not isinstance(value, (dict, list)) and str(value).strip():
            return str(value).strip()
    return ""


def address(said: str) -> str:
    """Return what a source says, where it may be an e-mail address; "" otherwise."""
    return said if "@" in said else ""


def identities_of(
    rows: Any, *, provider: tuple[str, ...], subject: tuple[str, ...], email: str = "email", own: Iterable[str] = ()
) -> tuple[ToldIdentity, ...]:
    """Return the identities in a list of an export; one without provider or subject is none.

    Args:
        rows: The list, or its JSON text; nothing for none.
        provider: Fields that may name the provider, in order of preference.
        subject: Fields that may say who it is there.
        email: The field with the address there; what is no address is left out.
        own: Providers that are the other system itself.

    Raises:
        MalformedError: It is no list of objects.
    """
    try:
        found = json.loads(rows) if isinstance(rows, str) and rows.strip() else rows
    except ValueError as error:
        raise MalformedError("The identities are no JSON.") from error
    if not isinstance(found or [], list) or not all(isinstance(row, dict) for row in found or ()):
        raise MalformedError("The identities are no list of objects.")
    told = (
        ToldIdentity(text(row, *provider), text(row, *subject), address(text(row, email)), text(row, "issuer"))
        for row in found or ()
    )
    return tuple(one for one in told if one.provider not in own and one.subject and (one.provider or one.issuer))


def profile_of(row: Mapping[str, Any], **fields: str) -> dict[str, Any]:
    """Return what a record says of somebody's profile, by the names that ``accounts.profile`` has for it.

    A user name that is an address is left out: it is their e-mail address, which says nothing new.

    Args:
        row: A record of the export.
        **fields: The field's name in the export, where it is not the claim's of OpenID Connect Core §5.1.
    """
    called = {"language": "locale", **{name: name for name in FIELDS}, **fields}
    told = {name: _said(row, field) for name, field in called.items()}
    if "@" in str(told["preferred_username"]):
        told["preferred_username"] = ""
    return {name: value for name, value in told.items() if value not in ("", None)}


def _said(row: Mapping[str, Any], name: str) -> Any:
    """Return a field as text; what is neither text nor a number as it is, which no account may have."""
    value = row.get(name)
    return value if isinstance(value, (bool, dict, list)) else text(row, name)


def flag(row: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """Return a flag that may be a word, as in a CSV file.

    Args:
        row: A record of the export.
        name: The field's name.
        default: What holds where the record has no such field.
    """
    value = row.get(name, default)
    return value.strip().lower() in ("true", "t", "1", "yes") if isinstance(value, str) else bool(value)


def moment(value: Any) -> datetime | None:
    """Return a time: ISO 8601, or seconds or milliseconds since 1970; none for nothing.

    Raises:
        MalformedError: It is none of these.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(value, (int, float)) or str(value).replace(".", "", 1).isdigit():
            seconds = float(value)
            return datetime.fromtimestamp(seconds / 1_000 if seconds > _MILLISECONDS else seconds, UTC)
        found = datetime.fromisoformat(str(value).strip().replace(" UTC", "+00:00"))
    except (ValueError, OverflowError, OSError) as error:
        raise MalformedError("A time is neither ISO 8601 nor a number since 1970.") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
