"""Our own form: JSON lines, as ``manage.py export_users`` writes them and anybody's script can."""

import base64
from typing import Any

from accounts.passwords.formats.foreign import from_base64
from accounts.transfer.records import (
    MalformedError,
    OwnCode,
    Person,
    flag,
    identities_of,
    moment,
    password_of,
    profile_of,
    text,
)
from accounts.transfer.sources import Source


def _person(row: dict[str, Any]) -> Person:
    password, notes = password_of(text(row, "password_hash"))
    codes = row.get("recovery_codes") or ()
    secret = text(row, "totp_secret").replace(" ", "").upper()
    try:
        totp = base64.b32decode(secret + "=" * (-len(secret) % 8)) if secret else None
    except ValueError as error:
        raise MalformedError("totp_secret is not Base32.") from error
    return Person(
        external_id=text(row, "external_id", "id"),
        email=text(row, "email"),
        email_verified=flag(row, "email_verified"),
        name=text(row, "name"),
        profile=profile_of(row, language="language"),
        is_active=flag(row, "is_active", default=True),
        created_at=moment(row.get("created_at")),
        password_hash=password,
        totp_secret=totp,
        code_digests=tuple(from_base64(code["sha512"]) for code in codes if "sha512" in code),
        own_codes=tuple(OwnCode(text(code, "selector"), text(code, "hash")) for code in codes if "sha512" not in code),
        identities=identities_of(row.get("identities"), provider=("provider",), subject=("subject",)),
        notes=notes,
    )


SOURCE = Source("jsonl", "JSON lines: external_id, email, email_verified, name, is_active, created_at, …", _person)
