"""The password as a way to prove again who one is; wrong passwords have a count of their own (``throttling``)."""

from django.utils.translation import gettext_noop as _

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.errors import InvalidCredentials
from accounts.lockout import throttling
from accounts.passwords import hashing as passwords
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.queries import Credentials
from accounts.users.reauthentication import Method
from ironauth.infrastructure.core.errors import FieldError, Overloaded
from ironauth.infrastructure.hashing import claims as hash_claims


class PasswordMethod(Method):
    """Serves for every act, but for a step-up only people without a second factor."""

    name = "password"
    fields = ("password",)
    missing = FieldError("password", "required", _("Send your password."))

    def serves(self, person: Credentials, event: Event) -> bool:
        """Tell whether the password suffices."""
        return event is not Event.STEP_UP or not person.methods

    async def judge(self, person: Credentials, shown: Evidence, asked: ProofRequest) -> None:
        """Judge the password. Raises ``InvalidCredentials``, ``Throttled``, ``Overloaded``."""
        attempt = await throttling.admit_confirmation(user_id=person.id)
        try:
            with hash_claims.named(person.id.hex):  # of a link's reader, too, who is not signed in
                verdict = await passwords.verify_password(shown.password or "", person.encoded)
        except Overloaded:
            await throttling.give_back(attempt)
            raise
        if not verdict.ok:
            await audit.record_later(
                asked.event,
                outcome=Outcome.FAILURE,
                actor_id=person.id,
                user_id=person.id,
                session_id=asked.session_id,
            )
            raise InvalidCredentials(_("The current password is wrong: check it and try again."))
        await throttling.succeeded(attempt)
