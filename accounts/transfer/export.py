"""Everybody out, a JSON line each, in the form ``import_users --from jsonl`` reads."""

import uuid
from collections.abc import Iterator
from typing import Any, Final

from accounts.mfa.totp import codes as totp
from accounts.profile import FIELDS
from accounts.users.models import User
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError

_ROWS: Final = 1_000  # people fetched at once
_PEPPERED: Final = "argon2$pepper="


def people(*, secrets: bool) -> Iterator[dict[str, Any]]:
    """Yield everybody but those who are being deleted, in the order of their ids.

    Args:
        secrets: Whether password hashes and the apps' secrets are among it. A hash made with a pepper is left out where
            none of them is: only this installation's keys judge it.
    """
    after = uuid.UUID(int=0)
    while True:
        found = User.objects.filter(pk__gt=after, pending_deletion=None).select_related("totp", "imported")
        rows = list(found.order_by("pk")[:_ROWS])
        if not rows:
            return
        for user in rows:
            yield _line(user, secrets=secrets)
        after = rows[-1].pk


def _line(user: User, *, secrets: bool) -> dict[str, Any]:
    line: dict[str, Any] = {
        "external_id": str(user.pk),
        "email": user.email,
        "email_verified": user.email_verified_at is not None,
        "name": user.name,
        **{field: value for field in (*FIELDS, "language") if (value := getattr(user, field))},
        "is_active": user.is_active,
        "created_at": user.created_at.isoformat(),
    }
    if (imported := getattr(user, "imported", None)) is not None:
        line["imported"] = {"source": imported.source, "external_id": imported.external_id}
    if secrets:
        if user.has_usable_password() and user.password:
            line["password_hash"] = user.password.removeprefix("argon2") if _is_plain(user.password) else user.password
        line |= _app(user)
    return line


def _is_plain(encoded: str) -> bool:
    """Tell whether a hash is Argon2 without pepper, whose PHC string any system reads."""
    return encoded.startswith("argon2$") and not encoded.startswith(_PEPPERED)


def _app(user: User) -> dict[str, str]:
    factor = getattr(user, "totp", None)
    if factor is None or factor.confirmed_at is None:
        return {}
    try:
        return {"totp_secret": totp.as_text(totp.unseal(factor.master_key_id, bytes(factor.sealed), user.pk))}
    except (MasterKeyMissingError, SealBrokenError):
        return {}
