"""Everybody out, a JSON line each, in the form ``import_users --from jsonl`` reads."""

import uuid
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

from accounts.federation.models import Identity
from accounts.mfa.recovery import brought
from accounts.mfa.recovery.models import RecoveryCode
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
        secrets: Whether password hashes, the apps' secrets and recovery codes' hashes are among it. A hash made with a
            pepper is judged by this installation's keys alone.
    """
    after = uuid.UUID(int=0)
    while True:
        found = User.objects.filter(pk__gt=after, pending_deletion=None).select_related("totp", "imported")
        found = found.prefetch_related("identities__provider", *(["recovery_codes"] if secrets else []))
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
    if identities := [_identity(one) for one in user.identities.all()]:
        line["identities"] = identities
    if secrets:
        if user.has_usable_password() and user.password:
            line["password_hash"] = _portable(user.password)
        line |= _app(user)
        if "totp_secret" in line and (codes := [code for row in user.recovery_codes.all() for code in _code(row)]):
            line["recovery_codes"] = codes
    return line


def _identity(identity: Identity) -> dict[str, str]:
    told = {"provider": identity.provider.slug, "issuer": identity.issuer, "subject": identity.subject}
    return told | ({"email": identity.email} if identity.email else {})


def _code(row: RecoveryCode) -> list[dict[str, str]]:
    """Return a code as ``import_users`` reads it; nothing for one whose digest does not open."""
    if not row.selector.startswith(brought.MARK):
        return [{"selector": row.selector, "hash": _portable(row.encoded)}]
    try:
        return [{"sha512": b64encode(brought.opened(row.user_id, row.encoded)).decode()}]
    except (MasterKeyMissingError, SealBrokenError):
        return []


def _portable(encoded: str) -> str:
    """Return a hash in the form that other systems read, where it has one."""
    return encoded.removeprefix("argon2") if _is_plain(encoded) else encoded


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
