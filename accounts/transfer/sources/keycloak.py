"""Keycloak: ``kc.sh export``, one file or a directory, with passwords (PBKDF2, Argon2) and authenticator apps."""

import json
import re
from base64 import b32decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from accounts.passwords.formats import pbkdf2
from accounts.passwords.formats.foreign import UnusableHashError, as_base64, from_base64
from accounts.transfer.records import (
    MalformedError,
    Note,
    Person,
    flag,
    identities_of,
    moment,
    note_of,
    password_of,
    profile_of,
    text,
)
from accounts.transfer.sources import Options, Source
from accounts.transfer.streams import records_of

_SUPPORTED_APP: Final = {"subType": "totp", "digits": 6, "period": 30, "algorithm": "HmacSHA1"}
_VERSIONS: Final = {"1.0": 16, "1.3": 19}
_DIGESTS: Final = {"RS512", "SHA-512"}  # two names of SHA-512: until version 26.1, and since
_PROFILE: Final = ("locale", "zoneinfo")  # attributes that an account here has a place for
_USERS: Final = re.compile(r".+-users-\d+\.json")


def _records(path: Path, _options: Options) -> Iterator[Any]:
    """Yield the people of a realm's file, or of every ``…-users-N.json`` of a directory."""
    if not path.is_dir():
        yield from records_of(path, "users")
        return
    files = sorted(found for found in path.iterdir() if _USERS.fullmatch(found.name))
    if not files:
        raise MalformedError("The directory has no file …-users-0.json: is it an export of Keycloak's?")
    for file in files:
        yield from records_of(file, "users")


def _person(row: dict[str, Any]) -> Person:
    password: str | None = None
    notes: frozenset[Note] = frozenset({Note.NO_PASSWORD})
    app: bytes | None = None
    codes: tuple[bytes, ...] = ()
    more: set[Note] = set()
    for credential in row.get("credentials") or ():
        match credential.get("type"):
            case "password":
                password, notes = _password(credential)
            case "otp" | "totp" if app is None and _is_supported(credential):
                app = _secret(credential)
            case "otp" | "totp" | "hotp":
                more.add(Note.TOTP_UNSUPPORTED)
            case "recovery-authn-codes" if found := _code_digests(credential):
                codes = found
            case "recovery-authn-codes":
                more.add(Note.RECOVERY_CODES)
            case _:
                more.add(Note.FACTOR_UNSUPPORTED)
    if row.get("requiredActions"):
        more.add(Note.REQUIRED_ACTION)
    if _has_attributes(row):
        more.add(Note.ATTRIBUTES)
    return Person(
        external_id=text(row, "id"),
        email=text(row, "email"),
        email_verified=flag(row, "emailVerified"),
        name=" ".join(filter(None, (text(row, "firstName"), text(row, "lastName")))),
        profile=_profile(row),
        is_active=flag(row, "enabled", default=True),
        created_at=moment(row.get("createdTimestamp")),
        password_hash=password,
        totp_secret=app,
        code_digests=codes,
        identities=identities_of(
            row.get("federatedIdentities"), provider=("identityProvider",), subject=("userId",), email="userName"
        ),
        notes=notes | more,
    )


def _profile(row: dict[str, Any]) -> dict[str, str]:
    """Return the names, and what the realm keeps as attributes: lists of values."""
    kept = row.get("attributes") or {}
    firsts = {name: values[0] for name, values in kept.items() if isinstance(values, list) and values}
    told = {name: firsts.get(name) for name in _PROFILE}
    return profile_of({**row, **told}, given_name="firstName", family_name="lastName", preferred_username="username")


def _has_attributes(row: dict[str, Any]) -> bool:
    """Return whether somebody has more than what comes along, and than what Keycloak gives everybody: default roles."""
    kept = [name for name in row.get("attributes") or {} if name not in _PROFILE]
    roles = [role for role in row.get("realmRoles") or () if not role.startswith("default-roles-")]
    return bool(kept or row.get("groups") or roles)


def _password(credential: dict[str, Any]) -> tuple[str | None, frozenset[Note]]:
    secret, costs = json.loads(credential["secretData"]), json.loads(credential["credentialData"])
    digest, salt = from_base64(secret["value"]), from_base64(secret.get("salt") or "")
    name = costs.get("algorithm") or ""
    try:
        if name == "argon2":
            return password_of(_argon2(costs, digest, salt))
        if name.startswith("pbkdf2"):
            return pbkdf2.stored(name, int(costs["hashIterations"]), salt, digest), frozenset()
    except UnusableHashError as error:
        return None, note_of(error)
    return None, frozenset({Note.HASH_UNKNOWN})


def _argon2(costs: dict[str, Any], digest: bytes, salt: bytes) -> str:
    """Return the PHC string of what Keycloak keeps in parts."""
    more = {name: values[0] for name, values in costs["additionalParameters"].items()}
    told = f"m={int(more['memory'])},t={int(costs['hashIterations'])},p={int(more['parallelism'])}"
    return f"$argon2{more['type']}$v={_VERSIONS[more['version']]}${told}${as_base64(salt)}${as_base64(digest)}"


def _is_supported(credential: dict[str, Any]) -> bool:
    settings = json.loads(credential["credentialData"])
    return all(settings.get(name, wanted) == wanted for name, wanted in _SUPPORTED_APP.items())


def _code_digests(credential: dict[str, Any]) -> tuple[bytes, ...]:
    """Return SHA-512 of each recovery code that is left, of 12 characters of 34; nothing for another digest."""
    secret, told = json.loads(credential["secretData"]), json.loads(credential["credentialData"])
    if told.get("algorithm") not in _DIGESTS or told.get("hashIterations") not in (None, 1):
        return ()
    try:
        return tuple(from_base64(code["encodedHashedValue"]) for code in secret["codes"])
    except UnusableHashError:
        return ()


def _secret(credential: dict[str, Any]) -> bytes:
    """Return the shared secret: the bytes of the text itself, unless it says that it is Base32."""
    value = json.loads(credential["secretData"])["value"]
    if json.loads(credential["credentialData"]).get("secretEncoding") == "BASE32":
        return b32decode(value + "=" * (-len(value) % 8))
    return str(value).encode()


SOURCE = Source("keycloak", "kc.sh export: a realm's file, or a directory", _person, records=_records)
