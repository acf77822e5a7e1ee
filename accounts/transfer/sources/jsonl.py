"""Our own form: JSON lines, as ``manage.py export_users`` writes them and anybody's script can."""

import base64
from typing import Any

from accounts.transfer.records import MalformedError, Person, flag, moment, password_of, profile_of, text
from accounts.transfer.sources import Source


def _person(row: dict[str, Any]) -> Person:
    password, notes = password_of(text(row, "password_hash"))
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
        notes=notes,
    )


SOURCE = Source("jsonl", "JSON lines: external_id, email, email_verified, name, is_active, created_at, …", _person)
