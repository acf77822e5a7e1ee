"""One-time codes of an app as a second factor: found, judged, used up once, and counted before they are judged.

Wrong codes have a count of the person's own (``throttling``), which a right password does not touch.
"""

import asyncio
import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import models
from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _

from accounts.lockout import throttling
from accounts.mfa.errors import InvalidMfaCode, SecondFactorRefused
from accounts.mfa.outputs import MfaOut
from accounts.mfa.second_factor import SecondFactor, refused, warn_owner, without_spaces
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp import units
from accounts.mfa.totp.errors import TotpUnreadable
from accounts.mfa.totp.models import TotpFactor
from accounts.mfa.totp.units import TOTP
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.resealing import Resealed
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.db.compiled import CompiledSelect, CompiledUpdate, Param
from ironauth.infrastructure.db.unit_of_work import database
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


class Totp(SecondFactor):
    """An app that makes one-time codes."""

    name = TOTP
    model = TotpFactor
    removed_because = "The person who made the account set it up."
    section = "one_time_codes"
    words = _("one-time codes of an app")
    noun = "the app"
    template = "admin/factors/totp.html"
    unjudged = TotpUnreadable

    def rows(self) -> QuerySet[Any]:
        """Return the apps whose first code was right."""
        return TotpFactor.objects.filter(confirmed_at__isnull=False)

    def since(self, user_id: uuid.UUID) -> Iterable[datetime]:
        """Return when the first code was right. One query."""
        return self.rows().filter(user_id=user_id).values_list("confirmed_at", flat=True)

    def export(self, person: Param) -> QuerySet[Any, Any]:
        """Return when it was set up."""
        return TotpFactor.objects.filter(user_id=person).values("created_at", "confirmed_at")

    def in_words(self, has: MfaOut) -> str:
        """Return whether there is an app."""
        return "Authenticator app" if has.totp else ""

    def reseal(self, *, batch: int) -> Resealed:
        """Seal the secrets that apps share with us. See ``units.reseal``."""
        return units.reseal(batch=batch)

    def accepts(self, shown: Evidence) -> bool:
        """Tell whether a code has the form of an app's; a passkey's answer sent with it goes first."""
        if shown.challenge_token is not None and shown.credential is not None:
            return False
        return shown.code is not None and totp.is_code(without_spaces(shown.code))

    async def judge(self, shown: Evidence, asked: ProofRequest) -> TotpProof:
        """Return the proof that the person has the app.

        After the tenth wrong code in a row the person gets a message, because somebody who tries codes has the
        password. Two units of work of a query each.

        Raises:
            InvalidMfaCode: It is wrong; ``asked.event`` is left as failed in the trail.
            Throttled: After too many of those for this person, before anything is looked at.
            TotpUnreadable: The secret does not open.
        """
        # To its end: the owner hears of the tenth wrong code, also from a sender who hangs up at once.
        return await asyncio.shield(_counted(without_spaces(shown.code or ""), asked))


async def _counted(code: str, asked: ProofRequest) -> TotpProof:
    """Judge a code for `Totp.judge`."""
    attempt = await throttling.admit_second_factor(user_id=asked.user_id)
    try:
        proof = await database().read(_judge, asked.user_id, code)
    except Unavailable:  # nothing was judged
        await throttling.give_back(attempt)
        raise
    if proof is None and throttling.is_last_free(attempt):
        await database().write(warn_owner, asked.user_id)
    if proof is None:
        await refused(asked)
        raise InvalidMfaCode
    return proof


def _judge(user_id: uuid.UUID, code: str) -> TotpProof | None:
    """Return the proof that a code is, if it is one; a unit of work, one query. Raises ``TotpUnreadable``."""
    rows = _TOTP.rows(user_id=user_id)
    if not rows:
        return None
    key_id, sealed, last_step = rows[0]
    try:
        secret = totp.unseal(key_id, bytes(sealed), user_id)
    except (MasterKeyMissingError, SealBrokenError) as error:  # not "wrong": tries that nobody judges would be counted
        get_logger().error("totp_secret_unreadable", user_id=str(user_id), remedy=str(error))
        raise TotpUnreadable from error
    if len(secret) < totp.LEAST_SECRET_BYTES:  # to try all of them is quick: no code of it is right
        remedy = "remove the app in the admin or by DELETE /api/v1/users/{id}/mfa: the person sets up a new one"
        get_logger().error("totp_secret_too_short", user_id=str(user_id), bits=8 * len(secret), remedy=remedy)
        return None
    step = totp.step_of(code, secret)
    return TotpProof(user_id, step) if step is not None and step > last_step else None
