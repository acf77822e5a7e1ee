"""Recovery codes as a second factor: found, judged, and used up once.

A person has no count of wrong ones. Nobody guesses 80 random bits, and a full count would keep the owner out for good:
anybody who has the password could fill it. They are counted for the client's address, for what judging costs. Codes
that are brought from another system and can be guessed (``brought.is_short``) have the count of the app's codes.
"""

import asyncio
import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import models
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout import rate_limits, throttling
from accounts.mfa.errors import InvalidMfaCode, SecondFactorRefused
from accounts.mfa.outputs import MfaOut
from accounts.mfa.recovery import brought
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.second_factor import SecondFactor, refused, warn_owner, without_spaces
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.passwords import hashing as passwords
from accounts.passwords.hashing import Verdict
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto.resealing import Resealed
from ironauth.infrastructure.db.compiled import CompiledDelete, CompiledSelect, Param
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.pool import hash_pool

RECOVERY_CODE: Final = "recovery_code"
_USER: Final = Param("user_id", models.UUIDField())
_CODE: Final = CompiledSelect(
    lambda: (
        RecoveryCode.objects.filter(
            Q(selector=Param("selector", models.CharField())) | Q(selector__startswith=brought.MARK), user=_USER
        )
        .order_by()
        .values_list("id", "encoded", "user__email", "selector")
    )
)
_USE_CODE: Final = CompiledDelete(lambda: RecoveryCode.objects.filter(pk=Param("id", models.UUIDField())))


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
        outbox.enqueue(Kind.RECOVERY_CODE_USED, recipient=self.email, user_id=self.user_id, facts={"left": left})
        audit.record(Event.RECOVERY_CODE_USED, actor_id=self.user_id, user_id=self.user_id, details={"left": left})
        return True


class _Stored(NamedTuple):
    """The hash a recovery code is judged against; without one the judgement costs the same.

    ``is_right``: it is one that the person has brought from another system, and nothing is left to judge.
    """

    code_id: uuid.UUID | None = None
    encoded: str | None = None
    email: str = ""
    is_right: bool = False


class RecoveryCodes(SecondFactor):
    """Codes that each stand in for a lost factor, once."""

    name = RECOVERY_CODE
    stands_alone = False
    model = RecoveryCode
    removed_because = "It stands in for a second factor."
    section = "recovery_codes"
    noun = "a recovery code"
    template = "admin/factors/recovery_code.html"

    def since(self, user_id: uuid.UUID) -> Iterable[datetime]:
        """Return nothing: they stay with the factors they stand in for."""
        return ()

    def export(self, person: Param) -> QuerySet[Any, Any]:
        """Return when each was made."""
        return RecoveryCode.objects.filter(user_id=person).order_by("pk").values("id", "created_at")

    def in_words(self, has: MfaOut) -> str:
        """Return how many are left."""
        return f"{has.recovery_codes_left} recovery codes left"

    def reseal(self, *, batch: int) -> Resealed:
        """Seal the digests of codes from other systems. See ``brought.reseal``."""
        return brought.reseal(batch=batch)

    def accepts(self, shown: Evidence) -> bool:
        """Tell whether there is a code; asked after the kinds that know their own codes by the form."""
        return shown.code is not None

    async def judge(self, shown: Evidence, asked: ProofRequest) -> RecoveryProof:
        """Return what proves that the person has the code. One query, and one Argon2 run whether or not they have it.

        A code that they have brought from another system is compared without Argon2 (``brought``), a short one is
        counted first.

        Raises:
            InvalidMfaCode: It is wrong; ``asked.event`` is left as failed in the trail.
            Throttled: After too many from the client's address, before anything is hashed; of short ones also after
                too many for this person.
            Overloaded: The hash pool is full.
        """
        hash_pool().require_capacity()
        await rate_limits.admit(rate_limits.RECOVERY_CODE, address=asked.address)
        typed = without_spaces(shown.code or "")
        known, digest = recovery_codes.normalised(typed), brought.digest_of(typed)
        if brought.is_short(typed):  # to its end: the owner hears of it, also from a sender who hangs up at once
            stored = await asyncio.shield(_counted(asked.user_id, digest))
        else:
            stored = await database().read(_stored, asked.user_id, known, digest) if known or digest else _Stored()
        with hash_claims.named(asked.user_id.hex):
            to_judge = known if not stored.is_right else None
            verdict = await passwords.verify_password(to_judge, stored.encoded) if to_judge else None
        proof = _judged(asked.user_id, stored, verdict)
        if proof is None:
            await refused(asked)
            raise InvalidMfaCode
        return proof


def codes_left() -> Subquery:
    """Return how many recovery codes a user of the query has; nothing for none."""
    of_user = RecoveryCode.objects.filter(user=OuterRef("pk")).order_by().values("user")
    return Subquery(of_user.annotate(left=Count("pk")).values("left"))


def _stored(user_id: uuid.UUID, code: str | None, digest: bytes | None) -> _Stored:
    """Read the code that may be the typed one, and what judges it; a unit of work, one query."""
    ours = _Stored()
    for code_id, encoded, email, selector in _CODE.rows(
        user_id=user_id, selector=recovery_codes.selector(code) if code else ""
    ):
        if not selector.startswith(brought.MARK):
            ours = _Stored(code_id, encoded, email)
        elif digest is not None and brought.is_right(user_id, encoded, digest):
            return _Stored(code_id, encoded, email, is_right=True)
    return ours


async def _counted(user_id: uuid.UUID, digest: bytes | None) -> _Stored:
    """Read a code short enough to be guessed: counted before, with those of the app. Raises ``Throttled``."""
    attempt = await throttling.admit_second_factor(user_id=user_id)
    try:
        stored = await database().read(_stored, user_id, None, digest)
    except Unavailable:  # nothing was judged
        await throttling.give_back(attempt)
        raise
    if not stored.is_right and throttling.is_last_free(attempt):
        await database().write(warn_owner, user_id)
    return stored


def _judged(user_id: uuid.UUID, stored: _Stored, verdict: Verdict | None) -> RecoveryProof | None:
    if stored.is_right and stored.code_id is not None:
        return RecoveryProof(user_id, stored.code_id, stored.email)
    if verdict is None or not verdict.ok or stored.code_id is None:
        return None
    return RecoveryProof(user_id, stored.code_id, stored.email)
