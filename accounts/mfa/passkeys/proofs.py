"""Judging what an authenticator signed, and making it count once: as a second factor, or to sign in without a password.

It is a ``Proof``, as codes are (``proofs``): judged first, and used up in the transaction of the act it is for. Nobody
guesses a signature, so wrong ones are counted for the client's address only, to end a broken client's loop.
"""

import uuid
from datetime import timedelta
from typing import Final, NamedTuple, NoReturn

from django.db.models import Q

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.lockout import rate_limits, throttling
from accounts.mfa.errors import SecondFactorRefused
from accounts.mfa.passkeys import challenges
from accounts.mfa.passkeys import units as passkey_units
from accounts.mfa.passkeys.challenges import Challenge, Purpose
from accounts.mfa.passkeys.errors import InvalidPasskey
from accounts.mfa.passkeys.facts import Assertion, Json, UnusableAnswer, load_ceremonies
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.passkeys.units import ONCE, Stored
from accounts.users import queries as user_queries
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

#: Seconds between two writes of when a passkey that does not count was last used; as for sessions.
USED_EVERY_S: Final = 60


class PasskeyProof(NamedTuple):
    """An assertion that was right when it was judged. ``amr``: values of RFC 8176, here "proof of possession"."""

    user_id: uuid.UUID
    passkey_id: uuid.UUID
    challenge: Challenge
    sign_count: int
    backed_up: bool
    amr: str = "pop"
    refusal: type[SecondFactorRefused] = InvalidPasskey

    def use(self) -> bool:
        """Make it count; False when its challenge was used before, or a later assertion was faster. Five queries.

        The passkey must still be there, and its counter still below what was signed, or not counting at all. Wrong
        codes of a second factor are forgiven: the holder of the passkey did not guess them. The person is
        locked first: who removes the passkey meanwhile is waited for, or finds the session that it opens, and ends it.
        """
        user_queries.lock(self.user_id)
        if not single_use.consume(ONCE, self.challenge.id, self.challenge.expires_at) or not self._count():
            return False
        throttling.forgive_second_factor(self.user_id)
        return True

    def _count(self) -> bool:
        """Note in the passkey's row that it was used; False when it is gone or has counted further."""
        now = clock.now()
        mine = Passkey.objects.filter(pk=self.passkey_id)
        if self.sign_count:
            later = mine.filter(sign_count__lt=self.sign_count)
            changes = {"sign_count": self.sign_count, "last_used_at": now, "backed_up": self.backed_up}
            return later.update(**changes) > 0
        rested = Q(last_used_at=None) | Q(last_used_at__lte=now - timedelta(seconds=USED_EVERY_S))
        still = mine.filter(sign_count=0)
        due = still.filter(rested | ~Q(backed_up=self.backed_up))
        return due.update(last_used_at=now, backed_up=self.backed_up) > 0 or still.exists()


async def judge(
    answer: Json,
    *,
    challenge_token: str,
    purpose: Purpose,
    user_id: uuid.UUID | None,
    event: Event,
    address: str,
    session_id: uuid.UUID | None = None,
) -> PasskeyProof:
    """Return the proof that the client holds a passkey: one of ``user_id``, if that is given. One query.

    Without ``user_id`` the authenticator has to have verified its user (PIN, fingerprint), and names the account
    itself.

    Args:
        answer: What the browser returned, parsed from JSON and not yet judged.
        challenge_token: The token that was handed out with the challenge.
        purpose: What the challenge was made for; one made for something else is refused.
        user_id: The person who has to hold the passkey; None where the passkey says who it is.
        event: What is recorded when the answer is refused.
        address: The client's IP address.
        session_id: The session that the request came in.

    Raises:
        InvalidPasskey: It proves nothing; ``event`` is left as failed in the trail.
        Throttled: In its place, after too many from the client's ``address``.
    """
    ceremonies = await load_ceremonies()
    stored: Stored | None = None
    try:
        challenge = _challenge(challenge_token, purpose, user_id)
        stored = await database().read(passkey_units.find, ceremonies.credential_id_of(answer))
        if stored is None or user_id not in (None, stored.user_id):
            raise UnusableAnswer("credential")
        found: Assertion = ceremonies.verify_assertion(
            answer, challenge=challenge.value, public_key=stored.public_key, verified=user_id is None
        )
        _require_fit(found, stored, anonymous=user_id is None)
        return PasskeyProof(stored.user_id, stored.id, challenge, found.sign_count, found.backed_up)
    except UnusableAnswer as error:
        whose, which = (stored.user_id, stored.id) if stored else (user_id, None)
        await refused(
            event, error.reason, user_id=user_id or whose, passkey_id=which, session_id=session_id, address=address
        )


async def refused(
    event: Event,
    cause: str,
    *,
    user_id: uuid.UUID | None,
    passkey_id: uuid.UUID | None = None,
    session_id: uuid.UUID | None = None,
    address: str,
) -> NoReturn:
    """Leave in log and trail that a passkey was refused, and refuse it.

    Throttled requests leave one event an hour, as everywhere: nobody can fill the trail without even a password.

    Args:
        event: What was tried.
        cause: A code for log and trail; the answer does not tell it.
        user_id: The person it was tried for; None where that is not known.
        passkey_id: The passkey that was shown, if there is such a one.
        session_id: The session that the request came in.
        address: The client's IP address.

    Raises:
        InvalidPasskey: Always, unless too many came from this address.
        Throttled: In its place then.
    """
    await rate_limits.admit(rate_limits.PASSKEY, address=address)
    await audit.record_later(
        event,
        outcome=Outcome.FAILURE,
        actor_id=user_id if session_id or event is Event.STEP_UP else None,  # a step-up is by somebody signed in
        user_id=user_id,
        session_id=session_id,
        details=_logged(cause, user_id, passkey_id),
    )
    raise InvalidPasskey


def _logged(cause: str, user_id: uuid.UUID | None, passkey_id: uuid.UUID | None) -> audit.Details:
    """Leave in the log that a passkey was refused; return what the trail says of it."""
    named = {"passkey": str(passkey_id)} if passkey_id else {}
    get_logger().info("passkey_refused", cause=cause, user_id=str(user_id) if user_id else None, **named)
    return {"reason": InvalidPasskey.code, "cause": cause, **named}


def _challenge(token: str, purpose: Purpose, user_id: uuid.UUID | None) -> Challenge:
    """Return the challenge that ``user_id``, or anybody, may answer for ``purpose``. Raises ``UnusableAnswer``."""
    challenge = challenges.parse(token, purpose)
    if challenge is None or challenge.user_id != user_id:
        raise UnusableAnswer("challenge")
    return challenge


def _require_fit(found: Assertion, stored: Stored, *, anonymous: bool) -> None:
    """Refuse what the signature covers and does not fit to the passkey (WebAuthn Level 3 §7.2, steps 6, 19 and 22)."""
    if (found.user_handle is None and anonymous) or found.user_handle not in (None, stored.user_id.bytes):
        raise UnusableAnswer("user_handle")
    if found.backup_eligible != stored.backup_eligible:
        raise UnusableAnswer("backup_eligible")
    counts = found.sign_count or stored.sign_count
    if counts and found.sign_count <= stored.sign_count:  # a copy of the authenticator is in use
        raise UnusableAnswer("sign_count")
