"""What somebody who signs in has proved: one class for each way. Verifying makes it, ``units.open_session`` takes it.

Another way to sign in is another class here, and a function that verifies it.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Protocol
from uuid import UUID

from django.utils.translation import gettext_noop as _

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.errors import InvalidCredentials, InvalidEmailCode
from accounts.federation import queries as federation
from accounts.lockout import throttling
from accounts.lockout.throttling import Attempt
from accounts.mfa.errors import SecondFactorRefused
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.kept_devices.queries import LiveDevice
from accounts.mfa.passkeys import proofs as passkey_proofs
from accounts.mfa.passkeys.errors import InvalidPasskey
from accounts.mfa.passkeys.proofs import PasskeyProof
from accounts.mfa.second_factor import refused
from accounts.outbox import tokens as email_tokens
from accounts.users import queries as user_queries
from accounts.users.proofs import Proof, ProofRequest
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.errors import InvalidMfaToken
from tokens.sessions.models import BY_EMAIL, BY_KEPT_DEVICE, BY_PASSWORD, BY_UPSTREAM
from tokens.sign_in import mfa_token
from tokens.sign_in.mfa_token import MfaTicket

#: What more than one factor is called: a value of RFC 8176.
MULTIPLE = "mfa"
_CHANGED = _("The account was changed while you were signing in: sign in again.")


class SignInProof(Protocol):
    """Who has proved to be who they are, under which epoch of the account, how (RFC 8176), and when."""

    @property
    def user_id(self) -> UUID:
        """Whose it is."""

    @property
    def session_epoch(self) -> int:
        """The epoch of the account when it was judged; a session is opened only under the same."""

    @property
    def amr(self) -> str:
        """How it was proved: values of RFC 8176, separated by spaces."""

    @property
    def proved_at(self) -> datetime:
        """When it was judged."""

    def consume(self) -> None:
        """Use up, in the caller's transaction, what may be used once; raise when another request was faster."""

    def reset_counters(self, context: ClientContext) -> None:
        """Reset, in the caller's transaction, the failures counted against the account, and know the device."""

    def account_changed(self) -> DomainError:
        """Return what to raise where the account is not what it was when the proof was judged."""

    async def record_refusal(self, error: DomainError, context: ClientContext) -> None:
        """Leave in the trail that a right proof opened no session, where ``error`` is the proof's own."""


class _Credentials:
    """What a proof does where the account is not what it was, if only its owner gets to see the reason."""

    __slots__ = ()

    def account_changed(self) -> DomainError:
        """Return that the sign-in begins again."""
        return InvalidCredentials(_CHANGED)

    async def record_refusal(self: SignInProof, error: DomainError, context: ClientContext) -> None:
        """Leave the refusal in the trail."""
        if isinstance(error, InvalidCredentials):
            await _record_refused(self.user_id)


async def _record_refused(user_id: UUID) -> None:
    await audit.record_later(Event.SIGN_IN, outcome=Outcome.REFUSED, actor_id=user_id, user_id=user_id)


@dataclass(frozen=True, slots=True)
class ByPassword(_Credentials):
    """The password alone, of somebody without a second factor. ``attempt``: the try it was; None: not counted."""

    amr: ClassVar[str] = BY_PASSWORD

    user_id: UUID
    session_epoch: int
    attempt: Attempt | None = None
    proved_at: datetime = field(default_factory=clock.now)

    def consume(self) -> None:
        """Do nothing: a password may be used again."""

    def reset_counters(self, context: ClientContext) -> None:
        """Reset the counts of the attempt. Three queries, two with Redis."""
        if self.attempt is not None:
            throttling.reset_counters(self.attempt, new_device=context.new_device)


@dataclass(frozen=True, slots=True)
class ByKeptDevice(_Credentials):
    """The password, on a device on which the person has proved a second factor before. ``attempt``: the try it was.

    It is as old as that proof: what asks for a recent one asks for it now.
    """

    amr: ClassVar[str] = f"{BY_PASSWORD} {BY_KEPT_DEVICE}"

    kept: LiveDevice
    attempt: Attempt | None = None

    @property
    def user_id(self) -> UUID:
        """Whose device it is."""
        return self.kept.user_id

    @property
    def session_epoch(self) -> int:
        """The epoch the password was right under."""
        return self.kept.epoch

    @property
    def proved_at(self) -> datetime:
        """When the second factor was proved on the device."""
        return self.kept.proved_at

    def consume(self) -> None:
        """Note the use. Raises ``InvalidCredentials`` where the device was ended meanwhile."""
        if not kept_devices.use(self.kept):
            raise self.account_changed()

    def reset_counters(self, context: ClientContext) -> None:
        """Reset the counts of the attempt. Three queries, two with Redis."""
        if self.attempt is not None:
            throttling.reset_counters(self.attempt, new_device=context.new_device)


@dataclass(frozen=True, slots=True)
class BySecondFactor:
    """A second factor after the password that ``ticket`` stands for. ``email``: the account's."""

    ticket: MfaTicket
    factor: Proof
    email: str
    proved_at: datetime = field(default_factory=clock.now)

    @property
    def user_id(self) -> UUID:
        """Whose ticket it is."""
        return self.ticket.user_id

    @property
    def session_epoch(self) -> int:
        """The epoch the password was right under."""
        return self.ticket.session_epoch

    @property
    def amr(self) -> str:
        """What was proved first, and the factor."""
        return with_factor(self.ticket.first, self.factor)

    def consume(self) -> None:
        """Use up ticket and factor. Raises ``InvalidMfaToken``, ``InvalidMfaCode`` or ``InvalidPasskey``.

        A ticket for an identity is no good once that is removed. Two queries more for such a one.
        """
        if self.ticket.first == BY_UPSTREAM and not _still_has(self.user_id, self.ticket.provider_id):
            raise InvalidMfaToken
        if not single_use.consume(mfa_token.ONCE, self.ticket.id, self.ticket.expires_at):
            raise InvalidMfaToken
        if not self.factor.use():
            raise self.factor.refusal

    def reset_counters(self, context: ClientContext) -> None:
        """Reset the account's count of wrong passwords. Two queries."""
        throttling.succeeded_in_full(email=self.email, context=context)

    def account_changed(self) -> DomainError:
        """Return that the ticket is no good any more."""
        return InvalidMfaToken()

    async def record_refusal(self, error: DomainError, context: ClientContext) -> None:
        """Leave in the trail that the factor was used before."""
        if isinstance(error, SecondFactorRefused):
            await refused(ProofRequest(self.user_id, Event.SIGN_IN), error.code)


@dataclass(frozen=True, slots=True)
class ByConfirmation(_Credentials):
    """The password, and the second factor of who has one, with which a person has just confirmed their address.

    Both were judged and used up there. ``factor``: how that was proved; "" for none.
    """

    user_id: UUID
    session_epoch: int
    email: str
    factor: str = ""
    proved_at: datetime = field(default_factory=clock.now)

    @property
    def amr(self) -> str:
        """The password, and the factor."""
        return f"{BY_PASSWORD} {self.factor} {MULTIPLE}" if self.factor else BY_PASSWORD

    def consume(self) -> None:
        """Do nothing: it was used up with the link."""

    def reset_counters(self, context: ClientContext) -> None:
        """Reset the account's count of wrong passwords. Two queries."""
        throttling.succeeded_in_full(email=self.email, context=context)


class _AccountChanged(InvalidPasskey):
    """The passkey was right; its person was deleted or deactivated, or ended all sessions, since."""


@dataclass(frozen=True, slots=True)
class ByEmailCode:
    """A code that was mailed to somebody without a second factor.

    ``amr``: not ``otp``, which RFC 8176 §2 has for generators of RFC 4226 and RFC 6238 and which clients take for a
    second factor. ``token_id``: None where the code was used up to prove the address. ``attempt``: the try it was.
    """

    amr: ClassVar[str] = BY_EMAIL
    only_inserts: ClassVar[bool] = False

    user_id: UUID
    session_epoch: int
    token_id: UUID | None
    attempt: Attempt | None = None
    proved_at: datetime = field(default_factory=clock.now)

    def consume(self) -> None:
        """Use up the code. Raises ``InvalidEmailCode``."""
        if self.token_id is not None and not email_tokens.consume(self.token_id):
            raise InvalidEmailCode

    def reset_counters(self, context: ClientContext) -> None:
        """Reset the counts of the attempt. Three queries, two with Redis."""
        if self.attempt is not None:
            throttling.reset_counters(self.attempt, new_device=context.new_device)

    def account_changed(self) -> DomainError:
        """Return the same as for a code that is no good."""
        return InvalidEmailCode()

    async def record_refusal(self, error: DomainError, context: ClientContext) -> None:
        """Leave the refusal in the trail."""
        if isinstance(error, InvalidEmailCode):
            await _record_refused(self.user_id)


@dataclass(frozen=True, slots=True)
class ByUpstream(_Credentials):
    """What another provider has said of somebody without a second factor. The sign-in there is used up already.

    ``proved_at``: when the person has authenticated there, which may be long ago. ``with_second_factor``: the provider
    has asked for one, and the operator trusts what it says of that. ``provider_id``: None where any will do.
    ``identity_id``: the identity, where its use is to be noted, with the ``email`` that the provider said.
    """

    user_id: UUID
    session_epoch: int
    proved_at: datetime
    with_second_factor: bool = False
    provider_id: UUID | None = None
    identity_id: UUID | None = None
    email: str = ""

    @property
    def amr(self) -> str:
        """That a provider said it, and whether by more than one factor."""
        return f"{BY_UPSTREAM} {MULTIPLE}" if self.with_second_factor else BY_UPSTREAM

    def consume(self) -> None:
        """Raise where the identity was removed since the provider's answer was used up. Two queries."""
        if self.identity_id is None:
            still_has = _still_has(self.user_id, self.provider_id)
        else:
            user_queries.lock(self.user_id)  # first, as in _still_has
            still_has = federation.sign_in(identity_id=self.identity_id, user_id=self.user_id, email=self.email)
        if not still_has:
            raise self.account_changed()

    def reset_counters(self, context: ClientContext) -> None:
        """Do nothing: no password was tried."""


@dataclass(frozen=True, slots=True)
class ByPasskey:
    """A passkey instead of a password, whose authenticator has verified its user. ``email``: the account's."""

    amr: ClassVar[str] = f"pop user {MULTIPLE}"  # whichever way the authenticator did it

    assertion: PasskeyProof
    session_epoch: int
    email: str
    proved_at: datetime = field(default_factory=clock.now)

    @property
    def user_id(self) -> UUID:
        """Whose passkey it is."""
        return self.assertion.user_id

    def consume(self) -> None:
        """Use up the challenge. Raises ``InvalidPasskey``."""
        if not self.assertion.use():
            raise self.assertion.refusal

    def reset_counters(self, context: ClientContext) -> None:
        """Reset the account's count of wrong passwords. Two queries."""
        throttling.succeeded_in_full(email=self.email, context=context)

    def account_changed(self) -> DomainError:
        """Return the same as for a passkey that is no good."""
        return _AccountChanged()

    async def record_refusal(self, error: DomainError, context: ClientContext) -> None:
        """Leave in the trail that the assertion was used before, or the account has changed.

        Raises:
            Throttled: after too many.
        """
        if isinstance(error, SecondFactorRefused):
            await passkey_proofs.refused(
                Event.SIGN_IN,
                "account" if isinstance(error, _AccountChanged) else "used",
                user_id=self.user_id,
                passkey_id=self.assertion.passkey_id,
                address=context.address,
            )


def _still_has(user_id: UUID, provider_id: UUID | None) -> bool:
    """Tell whether somebody can still sign in with an identity of this provider, or of any. Two queries.

    The person is locked first, as everywhere: who removes the identity, or switches the provider off, meanwhile is
    waited for, and who does it after this finds the session, and ends it.
    """
    user_queries.lock(user_id)
    return federation.has_one(user_id, provider_id)


def with_factor(amr: str, factor: Proof | None) -> str:
    """Return the ``amr`` of a session that was confirmed after it was opened: by ``factor``, or by the password.

    Args:
        amr: How the session was opened (RFC 8176), separated by spaces.
        factor: The proof of a second factor; or of a mailed code, which is one way more and no second factor; None
            where it was the password.
    """
    more: tuple[str, ...] = (BY_PASSWORD,)
    if factor is not None:
        more = (factor.amr,) if factor.amr == BY_EMAIL else (factor.amr, MULTIPLE)
    return " ".join(dict.fromkeys((*amr.split(), *more)))
