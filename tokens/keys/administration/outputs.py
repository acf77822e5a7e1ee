"""What the API says about signing keys; the private part is in no answer."""

from datetime import datetime
from typing import Any

import msgspec

from tokens.keys.models import SigningKey


class KeyOut(msgspec.Struct, frozen=True):
    """A signing key. ``state``: next, active, retiring or dropped; ``not_after``: when its last token has ended.

    ``master_key_id``: which of the operator's master keys its private part is sealed with.
    """

    kid: str
    state: str
    family: str
    alg: str
    public_jwk: dict[str, Any]
    master_key_id: str
    created_at: datetime
    activated_at: datetime | None
    retired_at: datetime | None
    not_after: datetime | None


def key_out(row: SigningKey) -> KeyOut:
    """Return a key as it leaves."""
    return KeyOut(**{name: getattr(row, name) for name in KeyOut.__struct_fields__})
