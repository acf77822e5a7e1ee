"""A code that is mailed, as a way to prove again who one is.

Somebody without a password, who signs in with another provider, by passkey or by mail, has nothing else to show. The
mailbox could set a password anyway, so this gives nobody more.

People with a password may step up by it where they could sign in by a message as well: that gives a session as young.
Acts that ask for the password itself (another address, new recovery codes, the end of an app or of the account) take no
code from them, for a session and an open mailbox are often in the same browser. See docs/decisions/reauthentication.md.
"""

import uuid
from dataclasses import dataclass
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.hashers import is_password_usable
from django.utils.translation import gettext_noop as _

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome, record_own
from accounts.errors import EmailCodeNotOffered, InvalidEmailCode
from accounts.lockout import rate_limits, throttling
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.tokens import Purpose
from accounts.users import rules
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.queries import Credentials
from accounts.users.reauthentication import Method, active_user
from ironauth.infrastructure.core.errors import FieldError, NotAuthenticated, Unavailable
from ironauth.infrastructure.db.unit_of_work import database


@dataclass(frozen=True, slots=True)
class EmailCodeProof:
    """A code was right, and is used up already."""

    amr: ClassVar[str] = "email"
    refusal: ClassVar[type[NotAuthenticated]] = InvalidEmailCode

    user_id: uuid.UUID

    def use(self) -> bool:
        """Return True: the code was used up when it was judged."""
        return True


class EmailCodeMethod(Method):
    """Serves people whose address is proved: for a step-up without a second factor, for other acts without a password.

    The step-up of people with a password takes it only where people sign in by mail.
    """

    name = "email_code"
    fields = ("email_code",)
    missing = FieldError("email_code", "required", _("Have a code sent to you by e-mail, and type it."))

    def serves(self, person: Credentials, event: Event) -> bool:
        """Tell whether the person has nothing better, or steps up and could sign in by mail all the same."""
        if person.email_verified_at is None:
            return False
        if event is Event.STEP_UP and person.methods:
            return False
        return not is_password_usable(person.encoded) or (event is Event.STEP_UP and _signs_in_by_mail(person))

    def is_second(self, person: Credentials) -> bool:
        """Tell whether the password is asked for first."""
        return is_password_usable(person.encoded)

    async def judge(self, person: Credentials, shown: Evidence, asked: ProofRequest) -> EmailCodeProof:
        """Judge the code, good in the session that asked for it. Raises ``InvalidEmailCode``, ``Throttled``."""
        attempt = await throttling.admit_confirmation(user_id=person.id)
        right = False
        if asked.session_id is not None:
            try:
                right = await database().write(
                    email_tokens.take_try_in_session,
                    user_id=person.id,
                    session_id=asked.session_id,
                    typed=shown.email_code or "",
                )
            except Unavailable:
                await throttling.give_back(attempt)
                raise
        if not right:
            await audit.record_later(
                asked.event,
                outcome=Outcome.FAILURE,
                actor_id=person.id,
                user_id=person.id,
                session_id=asked.session_id,
            )
            raise InvalidEmailCode
        await throttling.succeeded(attempt)
        return EmailCodeProof(person.id)


def _signs_in_by_mail(person: Credentials) -> bool:
    """Tell whether a message would sign the person in, with nothing else."""
    return settings.IRONAUTH_SIGN_IN_BY_EMAIL and not person.methods


def _is_offered(person: Credentials) -> bool:
    """Tell whether a code would be good for some act of the person."""
    method = EmailCodeMethod()
    return method.serves(person, Event.STEP_UP) or method.serves(person, Event.EMAIL_CHANGE_REQUESTED)


async def serves_step_up(user_id: uuid.UUID) -> bool:
    """Tell whether somebody may step up by a code. One query.

    Args:
        user_id: Who it is.

    Raises:
        NotAuthenticated: (401) The account is gone or inactive.
    """
    return EmailCodeMethod().serves(await active_user(user_id), Event.STEP_UP)


async def request_code(*, user_id: uuid.UUID, session_id: uuid.UUID, address: str) -> None:
    """Have a code sent to somebody who is to prove again who they are.

    Args:
        user_id: Who it is.
        session_id: The session that asks, in which alone the code is good.
        address: The client's.

    Raises:
        EmailCodeNotOffered: (409) they have something better to show, or nobody has proved their address.
        NotAuthenticated: (401) The account is gone or inactive.
        Throttled: (429) too many messages were asked for.
    """
    person = await active_user(user_id)
    if not _is_offered(person):
        raise EmailCodeNotOffered
    await rate_limits.admit_mail(kind="confirmation", email=person.email, address=address, user_id=user_id)
    await database().write(_request, user_id=user_id, session_id=session_id)


def _request(*, user_id: uuid.UUID, session_id: uuid.UUID) -> None:
    """Unit of work: queue the message, which ends the code of an older one."""
    user = rules.locked(user_id)
    token_id = email_tokens.issue(
        purpose=Purpose.REAUTHENTICATE, user_id=user_id, with_code=True, session_id=session_id
    )
    outbox.enqueue(Kind.CONFIRMATION_CODE, recipient=user.email, user_id=user_id, token_id=token_id)
    record_own(Event.CONFIRMATION_CODE_REQUESTED, user_id, session_id)
