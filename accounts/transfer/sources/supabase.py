"""Supabase: the rows of ``auth.users`` as CSV or JSON, with those of ``auth.identities`` as a list in each."""

import json
from typing import Any

from accounts.transfer.records import Person, flag, identities_of, moment, password_of, profile_of, text
from accounts.transfer.sources import Source


def _person(row: dict[str, Any]) -> Person:
    password, notes = password_of(text(row, "encrypted_password"))
    meta = row.get("raw_user_meta_data") or {}
    meta = json.loads(meta) if isinstance(meta, str) else meta
    return Person(
        external_id=text(row, "id"),
        email=text(row, "email"),
        email_verified=bool(text(row, "email_confirmed_at", "confirmed_at")),
        name=text(meta, "full_name", "name"),
        profile=profile_of(meta),
        is_active=not (text(row, "banned_until") or text(row, "deleted_at") or flag(row, "is_anonymous")),
        created_at=moment(row.get("created_at")),
        password_hash=password,
        identities=identities_of(
            row.get("identities"), provider=("provider",), subject=("provider_id", "id"), own=("email", "phone")
        ),
        notes=notes,
    )


SOURCE = Source("supabase", "the rows of auth.users as CSV or JSON, with encrypted_password", _person)
