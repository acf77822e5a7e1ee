"""A second factor of any kind as a way to prove again who one is: for step-ups of people who have a factor."""

from django.utils.translation import gettext_noop as _

from accounts.audit.recording import Event
from accounts.mfa import factors
from accounts.users.proofs import Evidence, Proof, ProofRequest
from accounts.users.queries import Credentials
from accounts.users.reauthentication import Method
from ironauth.infrastructure.core.errors import FieldError


class SecondFactorMethod(Method):
    """Each kind judges and counts for itself (``mfa.factors``)."""

    name = "second_factor"
    fields = ("code", "challenge_token", "credential")
    missing = FieldError("code", "required", _("Send a code of your second factor."))

    def serves(self, person: Credentials, event: Event) -> bool:
        """Tell whether the person has one, and steps up."""
        return event is Event.STEP_UP and bool(person.methods)

    def accepts(self, shown: Evidence) -> bool:
        """Tell whether some kind judges what was shown."""
        return factors.accepts(shown)

    async def judge(self, person: Credentials, shown: Evidence, asked: ProofRequest) -> Proof | None:
        """Judge it. Raises ``SecondFactorRefused``, ``Throttled``, ``Unavailable``."""
        return await factors.judge(shown, asked)
