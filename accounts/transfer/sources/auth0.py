"""Auth0: the bulk export (JSON lines), with the password hashes that its support adds to it."""

from typing import Any

from accounts.passwords.formats import salted_sha
from accounts.passwords.formats.foreign import UnusableHashError, from_base64
from accounts.transfer.records import (
    Note,
    Person,
    ToldIdentity,
    flag,
    identities_of,
    moment,
    note_of,
    password_of,
    profile_of,
    text,
)
from accounts.transfer.sources import Source

_SHA = ("sha1", "sha256", "sha512")


def _person(row: dict[str, Any]) -> Person:
    password, notes = _password(row)
    more = {Note.FACTOR_UNSUPPORTED} if row.get("multifactor") or row.get("mfa_factors") else set()
    return Person(
        external_id=text(row, "user_id", "_id", "Id", "id"),
        email=text(row, "email", "Email"),
        email_verified=flag(row, "email_verified") or flag(row, "Email Verified"),
        name=text(row, "name", "Name", "nickname"),
        profile=profile_of(row, preferred_username="username"),
        is_active=not flag(row, "blocked"),
        created_at=moment(row.get("created_at")),
        password_hash=password,
        identities=_identities(row),
        notes=notes | more,
    )


def _identities(row: dict[str, Any]) -> tuple[ToldIdentity, ...]:
    """Return who the person is elsewhere: a connection names the provider, and may stand before the id there."""
    told = identities_of(row.get("identities"), provider=("connection", "provider"), subject=("user_id",), email="")
    kinds = {text(one, "connection", "provider"): one.get("provider") for one in row.get("identities") or ()}
    return tuple(
        ToldIdentity(one.provider, one.subject.removeprefix(f"{one.provider}|"))
        for one in told
        if kinds.get(one.provider) != "auth0"
    )


def _password(row: dict[str, Any]) -> tuple[str | None, frozenset[Note]]:
    plain = text(row, "passwordHash", "password_hash")
    custom = row.get("custom_password_hash")
    if plain or not isinstance(custom, dict):
        return password_of(plain)
    try:
        return password_of(_custom(custom))
    except UnusableHashError as error:
        return None, note_of(error)


def _custom(custom: dict[str, Any]) -> str:
    """Return ``custom_password_hash`` of the bulk import's schema as a hash that some format recognises."""
    name, digest = custom["algorithm"], custom["hash"]
    if name not in _SHA or not isinstance(custom.get("salt"), dict):
        return str(digest["value"])  # Argon2, bcrypt, PBKDF2 and scrypt say everything in one string
    salt = custom["salt"]
    read = {"hex": bytes.fromhex, "base64": from_base64, "utf8": str.encode}
    return salted_sha.stored(
        name,
        salt.get("position", "suffix"),
        read[salt.get("encoding", "utf8")](salt["value"]),
        read[digest.get("encoding", "hex")](digest["value"]),
    )


SOURCE = Source("auth0", "the bulk user export (JSON lines or an array), with passwordHash", _person)
