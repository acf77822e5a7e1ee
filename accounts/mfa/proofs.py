"""Judging a code from an app or a recovery code, and making it count: once, and counted before it is judged.

A code is judged first, which may take a hash, and used up in the transaction of what it is good for: a sign-in, a
step-up. Wrong codes of an app have a count of the person's own (``throttling``), which a right password does not touch.
Recovery codes have none: nobody guesses 80 random bits, and somebody with the password can use that count up, which is
for good at its end, must not keep the owner out. They are counted for the client's address, for what judging costs.
"""

import uuid
from typing import Final, NamedTuple, Protocol

from django.db import models, transaction

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.lockout import rate_limits, throttling
from accounts.mfa.errors import InvalidMfaCode, SecondFactorRefused, TotpUnreadable
from accounts.mfa.models import RecoveryCode, TotpFactor
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.totp import codes as totp
from accounts.outbox import queue as outgoing_mail
from accounts.outbox.queue import Kind
from accounts.passwords import hashing as passwords
from accounts.passwords.hashing import Verdict
from accounts.users import queries as user_queries
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.db.compiled import CompiledDelete, CompiledSelect, CompiledUpdate
from ironauth.infrastructure.db.compiled_sql import Param
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger

_USER: Final = Param("user_id", models.UUIDField())
_STEP: Final = Param("step", models.BigIntegerField())
_TOTP: Final = CompiledSelect(
    lambda: (
        TotpFactor.objects.filter(user=_USER, confirmed_at__isnull=False)
        .order_by()
        .values_list("master_key_id", "sealed", "last_step")
    )
)
_USE_STEP: Final = CompiledUpdate(
    lambda: TotpFactor.objects.filter(user=_USER, confirmed_at__isnull=False, last_step__lt=_STEP), last_step=_STEP
)
_CODE: Final = CompiledSelect(
    lambda: (
        RecoveryCode.objects.filter(user=_USER, selector=Param("selector", models.CharField()))
        .order_by()
        .values_list("id", "encoded", "user__email")
    )
)
_USE_CODE: Final = CompiledDelete(lambda: RecoveryCode.objects.filter(pk=Param("id", models.UUIDField())))


class Proof(Protocol):
    """A second factor that was right when it was judged."""

    @property
    def user_id(self) -> uuid.UUID:
        """Whose it is."""

    @property
    def amr(self) -> str:
        """How it was proved: values of RFC 8176, or ours where it has none."""

    @property
    def refusal(self) -> type[SecondFactorRefused]:
        """What to raise when it does not count."""

    def use(self) -> bool:
        """Make it count, in the caller's transaction; False when another request was faster."""


class TotpProof(NamedTuple):
    """A right code from an app, of one time step."""

    user_id: uuid.UUID
    step: int
    amr: str = "otp"
    refusal: type[SecondFactorRefused] = InvalidMfaCode

    def use(self) -> bool:
        """Take no other code of this step or an earlier one from now on (RFC 6238 §5.2). Two queries, one if late."""
        if not _USE_STEP.run(user_id=self.user_id, step=self.step):
            return False
        throttling.forgive_second_factor(self.user_id)
        return True


class RecoveryProof(NamedTuple):
    """A right recovery code; its owner gets a message when it is used."""

    user_id: uuid.UUID
    code_id: uuid.UUID
    email: str
    amr: str = "rec"  # RFC 8176 has no value for it
    refusal: type[SecondFactorRefused] = InvalidMfaCode

    def use(self) -> bool:
        """Delete the code, and tell its owner and the audit trail. Five queries, one if late."""
        if not _USE_CODE.run(id=self.code_id):
            return False
        throttling.forgive_second_factor(self.user_id)
        left = RecoveryCode.objects.filter(user_id=self.user_id).count()
        outgoing_mail.enqueue(Kind.RECOVERY_CODE_USED, recipient=self.email, user_id=self.user_id, facts={"left": left})
        audit.record(Event.RECOVERY_CODE_USED, actor_id=self.user_id, user_id=self.user_id, details={"left": left})
        return True


class _Stored(NamedTuple):
    """The hash a recovery code is judged against; without one the judgement costs the same."""

    code_id: uuid.UUID | None = None
    encoded: str | None = None
    email: str = ""


async def judge(
    *, user_id: uuid.UUID, code: str, event: Event, address: str, session_id: uuid.UUID | None = None
) -> TotpProof | RecoveryProof:
    """Return what proves that the person has a second factor, by a code as it was typed.

    After the tenth wrong one of an app in a row the person gets a message: anybody who tries has the password.
    Raises ``InvalidMfaCode``, leaving ``event`` as failed in the trail; ``Throttled`` after too many of those, before
    anything is looked at or hashed: of an app's for this person, of others from the client's ``address``;
    ``Overloaded``, ``TotpUnreadable``. Two units of work of a query each; a recovery code costs one Argon2 run, whether
    or not the person has it.
    """
    typed = without_spaces(code)
    proof: TotpProof | RecoveryProof | None
    if totp.is_code(typed):
        attempt = await throttling.admit_second_factor(user_id=user_id)
        try:
            proof = await database().read(_judge_totp, user_id, typed)
        except Unavailable:  # nothing was judged
            await throttling.give_back(attempt)
            raise
        if proof is None and throttling.is_last_free(attempt):
            await database().write(_warn, user_id)
    else:
        hash_pool().require_capacity()
        await rate_limits.admit(rate_limits.RECOVERY_CODE, address=address)
        known = recovery_codes.normalised(typed)
        stored = await database().read(_stored, user_id, known) if known else _Stored()
        with hash_claims.named(user_id.hex):
            verdict = await passwords.verify_password(known, stored.encoded) if known else None
        proof = _judged(user_id, stored, verdict)
    if proof is None:
        await refused(user_id=user_id, event=event, session_id=session_id)
        raise InvalidMfaCode
    return proof


async def refused(
    *, user_id: uuid.UUID, event: Event, session_id: uuid.UUID | None = None, reason: str = InvalidMfaCode.code
) -> None:
    """Leave in log and trail that a second factor was wrong; the answer does not wait for it."""
    get_logger().info("second_factor_refused", user_id=str(user_id), reason=reason)
    await audit.record_later(
        event,
        outcome=Outcome.FAILURE,
        actor_id=user_id if session_id else None,
        user_id=user_id,
        session_id=session_id,
        details={"reason": reason},
    )


def judge_blocking(*, user_id: uuid.UUID, code: str, address: str) -> TotpProof | RecoveryProof | None:
    """See judge(); None for a wrong code, and the trail is the caller's business. Blocks the calling thread."""
    typed = without_spaces(code)
    if totp.is_code(typed):
        attempt = throttling.admit_second_factor_blocking(user_id=user_id)
        try:
            right = _judge_totp(user_id, typed)
        except Unavailable:
            throttling.give_back_blocking(attempt)
            raise
        if right is None and throttling.is_last_free(attempt):
            with transaction.atomic():
                _warn(user_id)
        return right
    hash_pool().require_capacity()
    rate_limits.admit_blocking(rate_limits.RECOVERY_CODE, address=address)
    known = recovery_codes.normalised(typed)
    if known is None:
        return None
    stored = _stored(user_id, known)
    with hash_claims.named(user_id.hex):
        verdict = passwords.verify_blocking(known, stored.encoded)
    return _judged(user_id, stored, verdict)


def without_spaces(code: str) -> str:
    """Return a code as typed without the spaces that apps show inside it."""
    return code.strip().replace(" ", "")


def _judge_totp(user_id: uuid.UUID, code: str) -> TotpProof | None:
    """Unit of work: one query. Raises ``TotpUnreadable``."""
    rows = _TOTP.rows(user_id=user_id)
    if not rows:
        return None
    key_id, sealed, last_step = rows[0]
    try:
        step = totp.step_of(code, totp.unseal(key_id, bytes(sealed), user_id))
    except (MasterKeyMissingError, SealBrokenError) as error:  # not "wrong": tries that nobody judges would be counted
        get_logger().error("totp_secret_unreadable", user_id=str(user_id), remedy=str(error))
        raise TotpUnreadable from error
    return TotpProof(user_id, step) if step is not None and step > last_step else None


def _warn(user_id: uuid.UUID) -> None:
    """Unit of work: tell the owner that somebody gets as far as the second factor. Two queries."""
    user = user_queries.find(user_id)
    if user is not None:
        outgoing_mail.enqueue(Kind.SECOND_FACTOR_REFUSED, recipient=user.email, user_id=user_id)


def _stored(user_id: uuid.UUID, code: str) -> _Stored:
    """Unit of work: one query."""
    rows = _CODE.rows(user_id=user_id, selector=recovery_codes.selector(code))
    return _Stored(*rows[0]) if rows else _Stored()


def _judged(user_id: uuid.UUID, stored: _Stored, verdict: Verdict | None) -> RecoveryProof | None:
    if verdict is None or not verdict.ok or stored.code_id is None:
        return None
    return RecoveryProof(user_id, stored.code_id, stored.email)
