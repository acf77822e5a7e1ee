"""Passkeys as a second factor; see ``proofs`` for how one is judged."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from django.db import models
from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _

from accounts.audit.recording import Event
from accounts.mfa.outputs import MfaOut, PasskeyOut
from accounts.mfa.passkeys import proofs as passkey_proofs
from accounts.mfa.passkeys import services as passkey_services
from accounts.mfa.passkeys.challenges import Purpose
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.passkeys.proofs import PasskeyProof
from accounts.mfa.second_factor import SecondFactor
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.db.compiled import CompiledSelect, Param

PASSKEY: Final = "passkey"
#: What a challenge must have been made for, by what the passkey is asked for.
_PURPOSES: Final[Mapping[Event, Purpose]] = {
    Event.SIGN_IN: Purpose.SECOND_FACTOR,
    Event.ADMIN_SIGN_IN: Purpose.SECOND_FACTOR,
    Event.STEP_UP: Purpose.STEP_UP,
}
_LISTED: Final = CompiledSelect(
    lambda: (
        Passkey.objects.filter(user_id=Param("id", models.UUIDField()))
        .order_by("pk")
        .values_list("id", "name", "created_at", "last_used_at")
    )
)


class Passkeys(SecondFactor):
    """WebAuthn credentials."""

    name = PASSKEY
    model = Passkey
    removed_because = "It signs in without a password."
    section = "passkeys"
    words = noun = _("a passkey")
    template = "admin/factors/passkey.html"
    typed = False

    def since(self, user_id: uuid.UUID) -> Iterable[datetime]:
        """Return when each was made. One query."""
        return Passkey.objects.filter(user_id=user_id).order_by("pk").values_list("created_at", flat=True)

    def export(self, person: Param) -> QuerySet[Any, Any]:
        """Return what tells them apart; an id and a public key mean something to the authenticator alone."""
        return Passkey.objects.filter(user_id=person).order_by("pk").values(
            "id", "name", "transports", "backup_eligible", "backed_up", "aaguid", "sign_count", "created_at",
            "last_used_at",
        )  # fmt: skip

    def in_words(self, has: MfaOut) -> str:
        """Return how many there are."""
        count = len(has.passkeys)
        return "" if not count else "1 passkey" if count == 1 else f"{count} passkeys"

    def accepts(self, shown: Evidence) -> bool:
        """Tell whether there is an answer to a challenge."""
        return shown.challenge_token is not None and shown.credential is not None

    async def judge(self, shown: Evidence, asked: ProofRequest) -> PasskeyProof:
        """Return what proves that the person has a passkey. See ``proofs.judge``."""
        return await passkey_proofs.judge(
            shown.credential or {},
            challenge_token=shown.challenge_token or "",
            purpose=_PURPOSES[asked.event],
            user_id=asked.user_id,
            event=asked.event,
            address=asked.address,
            session_id=asked.session_id,
        )

    async def challenge(self, asked: ProofRequest) -> str:
        """Return the options of `navigator.credentials.get()` as JSON. One query."""
        options = await passkey_services.assertion_options(_PURPOSES[asked.event], user_id=asked.user_id)
        return msgspec.json.encode(options).decode()


def passkeys_of(user_id: uuid.UUID) -> tuple[PasskeyOut, ...]:
    """Return the user's passkeys, the newest last. One query."""
    return tuple(PasskeyOut(*row) for row in _LISTED.rows(id=user_id))
