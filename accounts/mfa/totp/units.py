"""Units of work on apps: setting one up, taking it away, and keeping secrets under the newest master key."""

import uuid
from typing import Final, NamedTuple

from django.db import IntegrityError, models

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout import throttling
from accounts.mfa.errors import MfaNotEnabled
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.recovery import units as recovery_units
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp.errors import MfaAlreadyEnabled, MfaNotStarted
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users import rules as user_rules
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.infrastructure.crypto.resealing import Resealed, reseal_rows
from ironauth.infrastructure.db.compiled import CompiledInsert, CompiledUpdate, Param, given_row
from ironauth.infrastructure.db.faults import refers_to_nothing

TOTP: Final = "totp"  # what the API and the trail call this kind of factor
_OF_USER: Final = Param("user_id", models.UUIDField())
_START: Final = CompiledInsert(lambda: given_row(TotpFactor), ignore_conflicts=True)


_START_AGAIN: Final = CompiledUpdate(
    lambda: TotpFactor.objects.filter(user_id=_OF_USER, confirmed_at=None),
    sealed=Param("sealed", models.BinaryField()),
    master_key_id=Param("master_key_id", models.CharField()),
    created_at=Param("created_at", models.DateTimeField()),
    last_step=0,
)


class Pending(NamedTuple):
    """A secret that waits for its first code."""

    sealed: bytes
    master_key_id: str


def store_secret(*, user_id: uuid.UUID, sealed: bytes, master_key_id: str) -> str:
    """Store a secret that waits for its first code, in place of an older one; return the user's address.

    Needs no transaction, and locks nothing: each of the writes decides by itself. Three queries, two where one waits
    already, four before ``MfaAlreadyEnabled``.

    Args:
        user_id: The person who sets up an app.
        sealed: The sealed secret.
        master_key_id: The key that it was sealed under.

    Raises:
        MfaAlreadyEnabled: There is an app.
        NotAuthenticated: The user is gone or inactive.
    """
    user = user_rules.active(user_id)
    fresh = {"user_id": user_id, "sealed": sealed, "master_key_id": master_key_id, "created_at": clock.now()}
    first = {**fresh, "confirmed_at": None, "last_step": 0}
    try:
        # The last attempt is for a row that another request has inserted meanwhile: it waits, as any older one does.
        if not (_START_AGAIN.run(**fresh) or _START.run(**first) or _START_AGAIN.run(**fresh)):
            raise MfaAlreadyEnabled
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        raise NotAuthenticated(user_queries.GONE) from error
    return user.email


def pending(user_id: uuid.UUID) -> Pending:
    """Return the secret that waits. One query.

    Raises:
        MfaNotStarted: There is none.
        MfaAlreadyEnabled: There is an app.
    """
    row = TotpFactor.objects.filter(user_id=user_id).first()
    if row is None:
        raise MfaNotStarted
    if row.confirmed_at is not None:
        raise MfaAlreadyEnabled
    return Pending(bytes(row.sealed), row.master_key_id)


def confirm_totp(
    *,
    user_id: uuid.UUID,
    judged: Pending,
    step: int,
    hashes: recovery_units.Hashes,
    session_id: uuid.UUID | None,
    epoch: int | None = None,
) -> None:
    """Make the secret that was judged a factor, with new recovery codes; its first code is used up.

    Args:
        user_id: The person who sets up an app.
        judged: The secret that the code was judged by; one begun meanwhile is not confirmed.
        step: The time step (30 s each) of the code, which is good no more.
        hashes: The hashes of the new recovery codes, by selector.
        session_id: The session it is done in, for the trail.
        epoch: The epoch that the session was opened in; None where no session has to be alive.

    Raises:
        MfaNotStarted: That secret waits no more.
        NotAuthenticated: The user is gone or inactive, or the session has ended.
    """
    user = user_rules.locked(user_id, epoch=epoch)
    waiting = TotpFactor.objects.filter(user_id=user_id, confirmed_at=None, sealed=judged.sealed)
    if not waiting.update(confirmed_at=clock.now(), last_step=step):
        raise MfaNotStarted
    recovery_units.store_codes(user_id, hashes)
    kept_devices.end_all_of(user_id)
    throttling.forgive_second_factor(user_id)
    outbox.enqueue(Kind.MFA_ENABLED, recipient=user.email, user_id=user_id)
    audit.record_own(Event.MFA_ENABLED, user_id, session_id, method=TOTP)


def remove_totp(*, user_id: uuid.UUID, old: str, session_id: uuid.UUID | None) -> None:
    """Take the app away; the recovery codes go with the last factor.

    Args:
        user_id: The person who is signed in.
        old: The stored hash of the password when they proved again who they are.
        session_id: The session it is done in, for the trail.

    Raises:
        MfaNotEnabled: There is none.
        PasswordChanged: The hash ``old`` is not the password's any more.
        NotAuthenticated: The user is gone or inactive.
    """
    user = user_rules.confirmed(user_id, old)
    removed, _ = TotpFactor.objects.filter(user_id=user_id, confirmed_at__isnull=False).delete()
    if not removed:
        raise MfaNotEnabled
    recovery_units.forget_idle_codes(user_id)
    kept_devices.end_all_of(user_id)
    outbox.enqueue(Kind.MFA_DISABLED, recipient=user.email, user_id=user_id)
    audit.record_own(Event.MFA_DISABLED, user_id, session_id, method=TOTP)


def reseal(*, batch: int) -> Resealed:
    """Seal every secret under the newest master key, ``batch`` rows in a transaction; safe at any time."""
    return reseal_rows(TotpFactor.objects.exclude(master_key_id=newest_master_key_id()), _reseal, batch=batch)


def _reseal(row: TotpFactor) -> bool:
    sealed = bytes(row.sealed)
    key_id, anew = totp.seal(totp.unseal(row.master_key_id, sealed, row.pk), row.pk)
    return TotpFactor.objects.filter(pk=row.pk, sealed=sealed).update(sealed=anew, master_key_id=key_id) > 0
