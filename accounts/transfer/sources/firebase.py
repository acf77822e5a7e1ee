"""Firebase: ``firebase auth:export users.json``, and the project's password hash parameters in a file of their own."""

import re
from collections.abc import Callable
from typing import Any, Final

from accounts.passwords.formats import firebase
from accounts.passwords.formats.firebase import HashConfig
from accounts.passwords.formats.foreign import UnusableHashError, from_base64
from accounts.transfer.records import MalformedError, Note, Person, flag, identities_of, moment, note_of, text
from accounts.transfer.sources import Options, Source

#: ``base64_signer_key: …`` of the console, or ``"base64_signer_key": "…"``.
_FIELD: Final = re.compile(r'"?(\w+)"?\s*[:=]\s*"?([\w+/=-]+)"?', re.ASCII)
_PASSWORD: Final = frozenset({"password", "phone"})


def _configured(options: Options) -> Callable[[dict[str, Any]], Person]:
    config = None
    if options.hash_config is not None:
        told = dict(_FIELD.findall(options.hash_config.read_text(encoding="utf-8")))
        try:
            config = HashConfig(
                from_base64(told["base64_signer_key"]),
                from_base64(told["base64_salt_separator"]),
                int(told["rounds"]),
                int(told["mem_cost"]),
            )
        except (KeyError, ValueError) as error:
            names = "base64_signer_key, base64_salt_separator, rounds and mem_cost"
            raise MalformedError(f"The hash config needs {names}: copy it from Firebase's console.") from error
    return lambda row: _person(row, config)


def _person(row: dict[str, Any], config: HashConfig | None = None) -> Person:
    password, notes = _password(row, config)
    more = {Note.FACTOR_UNSUPPORTED} if row.get("mfaInfo") else set()
    return Person(
        external_id=text(row, "localId"),
        email=text(row, "email"),
        email_verified=flag(row, "emailVerified"),
        name=text(row, "displayName"),
        is_active=not flag(row, "disabled"),
        created_at=moment(row.get("createdAt")),
        password_hash=password,
        identities=identities_of(
            row.get("providerUserInfo"), provider=("providerId",), subject=("rawId", "federatedId"), own=_PASSWORD
        ),
        notes=notes | more,
    )


def _password(row: dict[str, Any], config: HashConfig | None) -> tuple[str | None, frozenset[Note]]:
    digest = text(row, "passwordHash")
    if not digest:
        return None, frozenset({Note.NO_PASSWORD})
    if config is None:
        raise MalformedError("Firebase's password hashes need its hash config: give --hash-config FILE.")
    try:
        return firebase.stored(config, from_base64(text(row, "salt")), from_base64(digest)), frozenset()
    except UnusableHashError as error:
        return None, note_of(error)


SOURCE = Source(
    "firebase",
    "auth:export as JSON, with --hash-config",
    _person,
    keys=("users",),
    configured=_configured,
)
