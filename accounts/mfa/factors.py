"""All kinds of second factors, and the questions that concern all of them. Add a new kind to ``FACTORS``."""

import uuid
from datetime import datetime
from typing import Final, NamedTuple

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db import models

from accounts.access import ways_in
from accounts.mfa.outputs import MfaOut
from accounts.mfa.passkeys import units as passkey_units
from accounts.mfa.passkeys.factor import PASSKEY, Passkeys, passkeys_of
from accounts.mfa.recovery.factor import RecoveryCodes, codes_left
from accounts.mfa.second_factor import SecondFactor
from accounts.mfa.totp.factor import Totp
from accounts.mfa.totp.units import TOTP
from accounts.users import second_factors
from accounts.users.models import User
from accounts.users.proofs import Evidence, Proof, ProofRequest
from accounts.users.second_factors import any_of, methods_of
from ironauth.infrastructure.crypto.resealing import Resealed
from ironauth.infrastructure.db.compiled import CompiledSelect, Param

__all__ = [
    "FACTORS",
    "PASSKEY",
    "TOTP",
    "FactorSummary",
    "accepts",
    "any_of",
    "judge",
    "kept",
    "methods_of",
    "overview",
]

#: The order in which people are offered them, and in which they judge what was shown.
FACTORS: Final[tuple[SecondFactor, ...]] = (Totp(), Passkeys(), RecoveryCodes())
#: Why what was shown could not be judged, for reasons of the kinds' own.
UNJUDGED: Final = tuple(factor.unjudged for factor in FACTORS if factor.unjudged is not None)
#: How Django marks an unusable password.
_HAS_PASSWORD: Final = models.ExpressionWrapper(
    ~models.Q(password__startswith=UNUSABLE_PASSWORD_PREFIX), models.BooleanField()
)
_OVERVIEW: Final = CompiledSelect(
    lambda: (
        User.objects.filter(pk=Param("id", models.UUIDField()))
        .order_by()
        .values_list(*second_factors.columns(), codes_left(), _HAS_PASSWORD)
    )
)


def register() -> None:
    """Let queries of users ask for each kind, and count passkeys among the ways in."""
    for factor in FACTORS:
        second_factors.register(factor.name, factor.rows, stands_alone=factor.stands_alone)
    ways_in.register(passkey_units.WAY_IN, passkey_units.usable)


class FactorSummary(NamedTuple):
    """A way to sign in, in words, for anybody who has to tell whether it is theirs."""

    words: str
    since: datetime


def kept(user_id: uuid.UUID) -> tuple[FactorSummary, ...]:
    """Return what stays when a password changes, the oldest of a kind first; recovery codes stay with these. 2 queries.

    Without names: who made an account under another person's address chose them.
    """
    return tuple(FactorSummary(factor.words, at) for factor in FACTORS for at in factor.since(user_id))


def overview(user_id: uuid.UUID) -> MfaOut:
    """Return all that a person is told about their factors. One query, two where there is a passkey."""
    nothing = (*(False for _ in FACTORS), None, False)
    (*flags, left, has_password) = next(iter(_OVERVIEW.rows(id=user_id)), nothing)
    methods = second_factors.named(flags)
    return MfaOut(
        methods=methods,
        totp=TOTP in methods,
        recovery_codes_left=left or 0,
        passkeys=passkeys_of(user_id) if PASSKEY in methods else (),
        has_password=bool(has_password),
    )


def reseal(*, batch: int) -> Resealed:
    """Seal the secrets of every kind under the newest master key, ``batch`` rows in a transaction; safe at any time."""
    done = [factor.reseal(batch=batch) for factor in FACTORS]
    return Resealed(sum(one.resealed for one in done), sum(one.left for one in done))


async def judge(shown: Evidence, asked: ProofRequest) -> Proof | None:
    """Return what proves that the person has a second factor; None where nothing was shown.

    Args:
        shown: What the person sent.
        asked: For which act, by which account.

    Raises:
        SecondFactorRefused: What was shown is wrong; ``asked.event`` is left as failed in the trail.
        Throttled: After too many of those.
        Unavailable: Nothing could be judged: ``Overloaded``, ``TotpUnreadable``.
    """
    factor = _of(shown)
    return await factor.judge(shown, asked) if factor else None


def accepts(shown: Evidence) -> bool:
    """Tell whether some kind judges what was shown."""
    return _of(shown) is not None


def _of(shown: Evidence) -> SecondFactor | None:
    return next((factor for factor in FACTORS if factor.accepts(shown)), None)


register()
