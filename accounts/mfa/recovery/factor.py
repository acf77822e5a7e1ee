"""Recovery codes as a second factor: found, judged, and used up once.

A person has no count of wrong ones. Nobody guesses 80 random bits, and a full count would keep the owner out for good:
anybody who has the password could fill it. They are counted for the client's address, for what judging costs.
"""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import models
from django.db.models import Count, OuterRef, QuerySet, Subquery

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout import rate_limits, throttling
from accounts.mfa.errors import InvalidMfaCode, SecondFactorRefused
from accounts.mfa.outputs import MfaOut
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.second_factor import SecondFactor, refused, without_spaces
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.passwords import hashing as passwords
from accounts.passwords.hashing import Verdict
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.db.compiled import CompiledDelete, CompiledSelect, Param
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.pool import hash_pool

RECOVERY_CODE: Final = "recovery_code"
_USER: Final = Param("user_id", models.UUIDField())
_CODE: Final = CompiledSelect(
    lambda: (
        RecoveryCode.objects.filter(user=_USER, selector=Param("selector", models.CharField()))
        .order_by()
        .values_list("id", "encoded", "user__email")
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
    """The hash a recovery code is judged against; without one the judgement costs the same."""

    code_id: uuid.UUID | None = None
    encoded: str | None = None
    email: str = ""


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

    def accepts(self, shown: Evidence) -> bool:
        """Tell whether there is a code; asked after the kinds that know their own codes by the form."""
        return shown.code is not None

    async def judge(self, shown: Evidence, asked: ProofRequest) -> RecoveryProof:
        """Return what proves that the person has the code. One query, and one Argon2 run whether or not they have it.

        Raises:
            InvalidMfaCode: It is wrong; ``asked.event`` is left as failed in the trail.
            Throttled: After too many from the client's address, before anything is hashed.
            Overloaded: The hash pool is full.
        """
        hash_pool().require_capacity()
        await rate_limits.admit(rate_limits.RECOVERY_CODE, address=asked.address)
        known = recovery_codes.normalised(without_spaces(shown.code or ""))
        stored = await database().read(_stored, asked.user_id, known) if known else _Stored()
        with hash_claims.named(asked.user_id.hex):
            verdict = await passwords.verify_password(known, stored.encoded) if known else None
        proof = _judged(asked.user_id, stored, verdict)
        if proof is None:
            await refused(asked)
            raise InvalidMfaCode
        return proof


def codes_left() -> Subquery:
    """Return how many recovery codes a user of the query has; nothing for none."""
    of_user = RecoveryCode.objects.filter(user=OuterRef("pk")).order_by().values("user")
    return Subquery(of_user.annotate(left=Count("pk")).values("left"))


def _stored(user_id: uuid.UUID, code: str) -> _Stored:
    """Read the code that may be the typed one, and what judges it; a unit of work, one query."""
    rows = _CODE.rows(user_id=user_id, selector=recovery_codes.selector(code))
    return _Stored(*rows[0]) if rows else _Stored()


def _judged(user_id: uuid.UUID, stored: _Stored, verdict: Verdict | None) -> RecoveryProof | None:
    if verdict is None or not verdict.ok or stored.code_id is None:
        return None
    return RecoveryProof(user_id, stored.code_id, stored.email)
