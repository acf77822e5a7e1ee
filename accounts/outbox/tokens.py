"""Single-use tokens that travel by e-mail: made, recognised, used up and forgotten. Most functions are units of work.

A token is ``base64url(id ‖ HMAC-SHA-256(server key, purpose ‖ id ‖ nonce))``: 48 bytes, 64 characters. The random nonce
stays in the row. The key is derived from a master key, which is not in the database. Neither alone makes a token.

A token may also have a code of six digits, computed from the same nonce. A code is good only together with the id of
its row, which a page keeps in a value made for one browser, and for ``CODE_TRIES`` tries.

The token can be computed again for as long as its message waits, so it is stored nowhere: the row has its SHA-256.
"""

import hashlib
import hmac
import os
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, models

from accounts.outbox.models import EmailToken, OutgoingMail
from ironauth.infrastructure.core import base64url, clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.crypto.master_keys import keyed_mac, mac, newest_master_key_id, register_purpose
from ironauth.infrastructure.db.compiled import (
    CompiledDelete,
    CompiledInsert,
    CompiledSelect,
    CompiledUpdate,
    Param,
    given_row,
)

_PURPOSE: Final = register_purpose("ironauth e-mail token")
ID_BYTES: Final = 16
NONCE_BYTES: Final = 32
CODE_DIGITS: Final = 6
#: Minutes from its sending that what signs in, or proves again who one is, works: SP 800-63B-4 §3.1.3 allows ten.
SIGN_IN_MIN: Final = 10
CODE_TRIES: Final = 5  # so a code is guessed five times in a million; SP 800-63B-4 §3.2.2 allows a hundred tries
TOKEN_CHARACTERS: Final = 64  # 48 bytes * 4 / 3: no padding, and one text for one token
Purpose = EmailToken.Purpose
_SHORT: Final = (Purpose.SIGN_IN, Purpose.REAUTHENTICATE)

_ID: Final = Param("id", models.UUIDField())
_NOW: Final = Param("now", models.DateTimeField())
_COLUMNS: Final = ("id", "purpose", "digest", "new_email", "user_id", "user__email", "user__name", "user__is_active")
_FIND: Final = CompiledSelect(
    lambda: EmailToken.objects.filter(pk=_ID, expires_at__gt=_NOW).order_by().values_list(*_COLUMNS)
)
_FIND_CODE: Final = CompiledSelect(
    lambda: (
        EmailToken.objects.filter(pk=_ID, expires_at__gt=_NOW)
        .order_by()
        .values_list(*_COLUMNS, "nonce", "master_key_id")
    )
)
_INSERT: Final = CompiledInsert(lambda: given_row(EmailToken))
_REPLACE: Final = CompiledDelete(
    lambda: EmailToken.objects.filter(
        user_id=Param("user_id", models.UUIDField()), purpose=Param("purpose", models.CharField())
    )
)
_USE: Final = CompiledDelete(lambda: EmailToken.objects.filter(pk=_ID, expires_at__gt=_NOW))
#: Not for taking a deletion back, which ends when the account does, nor for an invitation, which has days of its own.
_RENEW: Final = CompiledUpdate(
    lambda: EmailToken.objects.filter(pk=_ID).exclude(purpose__in=(Purpose.RESTORE_ACCOUNT, Purpose.INVITATION)),
    expires_at=Param("expires_at", models.DateTimeField()),
)


class FoundToken(NamedTuple):
    """A token this server made, still good, and whose it is."""

    id: uuid.UUID
    purpose: str
    new_email: str
    user_id: uuid.UUID
    email: str
    name: str


def issue(
    *,
    purpose: Purpose,
    user_id: uuid.UUID | None,
    new_email: str = "",
    expires_at: datetime | None = None,
    with_code: bool = False,
    session_id: uuid.UUID | None = None,
) -> uuid.UUID:
    """Store a new token in place of the user's older one of this purpose; return its id. Two queries.

    Call it inside a transaction that has locked the user's row, so that two requests at once leave one token.

    Args:
        purpose: What it is good for.
        user_id: Whose it is; None writes the same, and the token opens nothing.
        new_email: The address that a change is about.
        expires_at: When it ends; unless given, `life` after its message is sent.
        with_code: Whether the message also has a code of six digits, for the page that asked for it.
        session_id: The session in which alone it is good.
    """
    _REPLACE.run(user_id=user_id, purpose=purpose.value)
    token_id, nonce, key_id, now = new_id(), os.urandom(NONCE_BYTES), newest_master_key_id(), clock.now()
    digest = hashlib.sha256(_mac(token_id, purpose.value, nonce, key_id)).digest()
    _INSERT.run(
        id=token_id,
        purpose=purpose.value,
        user_id=user_id,
        new_email=new_email,
        nonce=nonce,
        master_key_id=key_id,
        digest=digest,
        code_tries=0 if with_code else None,
        session_id=session_id,
        created_at=now,
        expires_at=expires_at or now + life(purpose),
    )
    return token_id


def text(token: EmailToken) -> str:
    """Return what the message says.

    Raises:
        MasterKeyMissingError: The row's key has left the settings.
    """
    return base64url.encode(token.pk.bytes + _mac(token.pk, token.purpose, bytes(token.nonce), token.master_key_id))


def code(token: EmailToken) -> str:
    """Return the six digits of a token that has a code.

    Raises:
        MasterKeyMissingError: The row's key has left the settings.
    """
    return _code(token.pk, token.purpose, bytes(token.nonce), token.master_key_id)


def take_try(token_id: uuid.UUID, typed: str, *purposes: Purpose) -> FoundToken | None:
    """Count a try at the code of a token; return whose token it is when the code is right.

    Counted before it is judged, so that of many at once no more than ``CODE_TRIES`` are judged. The token is not used
    up. Two queries at most; to be committed whatever comes of it.

    Args:
        token_id: The token, as the page has kept it.
        typed: What was typed; spaces do not count.
        purposes: What it may be good for.
    """
    left = EmailToken.objects.filter(pk=token_id, expires_at__gt=clock.now(), code_tries__lt=CODE_TRIES)
    if not left.update(code_tries=models.F("code_tries") + 1):
        return None
    rows = _FIND_CODE.rows(id=token_id, now=clock.now())
    if not rows:
        return None
    _, purpose, _, new_email, user_id, email, name, is_active, nonce, key_id = rows[0]
    expected = _code(token_id, purpose, bytes(nonce), key_id)
    right = hmac.compare_digest(expected.encode(), "".join(typed.split()).encode())
    if not right or not is_active or purpose not in purposes:  # is_active: None for a token that was made for nobody
        return None
    return FoundToken(token_id, purpose, new_email, user_id, email, name)


def take_try_in_session(*, user_id: uuid.UUID, session_id: uuid.UUID, typed: str) -> bool:
    """Count a try at the code with which somebody proves again who they are; use it up and tell whether it was right.

    Four queries at most; to be committed whatever comes of it.

    Args:
        user_id: Who it is.
        session_id: The session that has asked for the code.
        typed: What was typed.
    """
    asked = EmailToken.objects.filter(user_id=user_id, session_id=session_id, purpose=Purpose.REAUTHENTICATE)
    token_id = asked.values_list("pk", flat=True).first()
    found = take_try(token_id, typed, Purpose.REAUTHENTICATE) if token_id is not None else None
    return found is not None and consume(found.id)


def renew(token: EmailToken) -> None:
    """Let the token's life begin now: nobody has seen it before its message is sent. One query."""
    _RENEW.run(id=token.pk, expires_at=clock.now() + life(token.purpose))


def life(purpose: str) -> timedelta:
    """Return how long a token of this purpose works after its message is sent."""
    return timedelta(minutes=SIGN_IN_MIN if purpose in _SHORT else settings.IRONAUTH_EMAIL_TOKEN_MIN)


def find(token: str, *purposes: Purpose) -> FoundToken | None:
    """Return whose token this is, when it is good for one of ``purposes`` and its user active. At most one query.

    Of an inactive user only the token that makes them active again is good.

    Args:
        token: What the link brought, not yet judged.
        *purposes: What the token may have been made for.
    """
    row = _genuine(token)
    if row is None:
        return None
    token_id, purpose, _, new_email, user_id, email, name, is_active = row
    wanted = (False,) if purpose == Purpose.RESTORE_ACCOUNT else (True,)  # None: it was made for nobody
    if is_active not in wanted or purpose not in purposes:
        return None
    return FoundToken(token_id, purpose, new_email, user_id, email, name)


def find_without_user(token: str, purpose: Purpose) -> uuid.UUID | None:
    """Return the id of this token, when it is good for ``purpose`` and was made for nobody. At most one query.

    Args:
        token: The text of a link.
        purpose: What it has to be good for.
    """
    row = _genuine(token)
    if row is None or row[1] != purpose or row[4] is not None:
        return None
    token_id: uuid.UUID = row[0]
    return token_id


def holder_of(token_id: uuid.UUID) -> tuple[uuid.UUID, int]:
    """Return the account that a token was made for, and its epoch; an id that nobody has for none. One query."""
    rows = EmailToken.objects.filter(pk=token_id, user__isnull=False).values_list("user_id", "user__session_epoch")
    return rows.first() or (uuid.UUID(int=0), 0)


def named(token: str) -> uuid.UUID | None:
    """Return the id that a text names if it has the form of a token, genuine or not; for what opens nothing by it."""
    parts = _parts(token)
    return parts[0] if parts else None


def _genuine(token: str) -> list[Any] | None:
    """Return the row of a token that this server made and that has not expired; its columns are ``_COLUMNS``."""
    parts = _parts(token)
    rows = _FIND.rows(id=parts[0], now=clock.now()) if parts else []
    if not parts or not rows:
        return None
    return rows[0] if hmac.compare_digest(hashlib.sha256(parts[1]).digest(), bytes(rows[0][2])) else None


def consume(token_id: uuid.UUID) -> bool:
    """Delete the token; return whether it was still good. Of several users at once one gets True. One query."""
    return _USE.run(id=token_id, now=clock.now()) > 0


def forget(user_id: uuid.UUID, purpose: Purpose) -> None:
    """Delete the user's token of this purpose, if there is one, and its message with it. One query.

    Args:
        user_id: Whose it is.
        purpose: What it is good for.
    """
    _REPLACE.run(user_id=user_id, purpose=purpose.value)


def forget_all_of(user_ids: Iterable[Any], using: str = DEFAULT_DB_ALIAS) -> None:
    """Delete every token of these users: their password, address or standing has changed. One query.

    Args:
        user_ids: The ids of the users.
        using: The alias of the database that the change is made in.
    """
    EmailToken.objects.using(using).filter(user_id__in=list(user_ids))._raw_delete(using)  # noqa: SLF001 - no signals, no loading


def purge(*, before: datetime, batch: int) -> int:
    """Delete at most ``batch`` tokens that expired before ``before`` and have no message left; return how many.

    Two queries.

    Args:
        before: Tokens that expired earlier may go.
        batch: How many rows at most.
    """
    waiting = OutgoingMail.objects.filter(token_id=models.OuterRef("pk"))
    old = EmailToken.objects.filter(expires_at__lt=before).exclude(models.Exists(waiting)).order_by("pk")
    ids = list(old.values_list("pk", flat=True)[:batch])
    return EmailToken.objects.filter(pk__in=ids)._raw_delete(DEFAULT_DB_ALIAS) if ids else 0  # noqa: SLF001 - as above


def _parts(token: str) -> tuple[uuid.UUID, bytes] | None:
    """Return the id and the authentication code in ``token``; None when it has not the one form tokens have."""
    raw = base64url.decode(token, TOKEN_CHARACTERS)
    return (uuid.UUID(bytes=raw[:ID_BYTES]), raw[ID_BYTES:]) if raw is not None else None


def _code(token_id: uuid.UUID, purpose: str, nonce: bytes, master_key_id: str) -> str:
    """Return the six digits: 64 bits of a MAC modulo a million, so no code is likelier than another by 1e-13."""
    digest = keyed_mac(_mac(token_id, purpose, nonce, master_key_id), b"code")
    return f"{int.from_bytes(digest[:8], 'big') % 10**CODE_DIGITS:0{CODE_DIGITS}}"


def _mac(token_id: uuid.UUID, purpose: str, nonce: bytes, master_key_id: str) -> bytes:
    """Return the 32-byte authentication code of ``purpose ‖ id ‖ nonce``; id and nonce have fixed lengths."""
    return mac(_PURPOSE, purpose.encode() + token_id.bytes + nonce, master_key_id)
