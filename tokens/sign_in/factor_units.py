"""Units of work on sessions that a second factor opens, or confirms. Synchronous, run by the database pool.

They raise, unlike those of ``sessions.units``: what a refusal rolls back is the use of a code or ticket that opened
nothing.
"""

from uuid import UUID

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.lockout import throttling
from accounts.mfa.passkeys.proofs import PasskeyProof
from accounts.mfa.proofs import Proof
from accounts.users import units
from accounts.users.outputs import Authenticated
from accounts.users.units import Credentials
from ironauth.infrastructure.cache.invalidation import invalidate, sid_tag
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.errors import InvalidMfaToken
from tokens.sessions import queries as session_queries
from tokens.sessions.models import BY_PASSWORD
from tokens.sessions.units import FIRST_PARTY, OpenedSession, SessionFactory, open_authenticated
from tokens.sign_in import mfa_token
from tokens.sign_in.mfa_token import MfaTicket

#: What more than one factor is called: a value of RFC 8176.
MULTIPLE = "mfa"
#: How a passkey whose authenticator has verified its user signs in, whichever way it did: values of RFC 8176.
BY_PASSKEY = f"pop user {MULTIPLE}"


def holder_of(ticket: MfaTicket) -> Credentials:
    """Return whose ticket it is. Two queries.

    Raises ``InvalidMfaToken`` when it was used, or its user is gone, inactive, or had their sessions ended since.
    """
    found = units.credentials_of_id(ticket.user_id)
    if found is None or not found.is_active or found.session_epoch != ticket.session_epoch:
        raise InvalidMfaToken
    if single_use.is_used(mfa_token.ONCE, ticket.id):
        raise InvalidMfaToken
    return found


def with_proof(amr: str, proof: Proof | None) -> str:
    """Return the ``amr`` of a session that is confirmed by ``proof``, or by the password, besides how it was opened."""
    more = (proof.amr, MULTIPLE) if proof else (BY_PASSWORD,)
    return " ".join(dict.fromkeys((*amr.split(), *more)))


def open_with_factor(
    *, ticket: MfaTicket, proof: Proof, email: str, context: ClientContext, opener: SessionFactory = FIRST_PARTY
) -> OpenedSession:
    """Store a new session for somebody whose second factor was just right, and use up both proof and ticket.

    ``email``: the account's, whose count of wrong passwords is reset; with the client's device it is known from now
    on. Raises ``InvalidMfaToken`` when the ticket was used, or its account has changed; ``InvalidMfaCode`` or
    ``InvalidPasskey`` when the proof was used; nothing has happened then. 11 queries at most.
    """
    if not single_use.consume(mfa_token.ONCE, ticket.id, ticket.expires_at):
        raise InvalidMfaToken
    if not proof.use():
        raise proof.refusal
    who = Authenticated(ticket.user_id, ticket.session_epoch)
    grant = open_authenticated(who=who, context=context, amr=with_proof(BY_PASSWORD, proof), opener=opener)
    if grant is None:
        raise InvalidMfaToken
    _know(email, context)
    return grant


def open_with_passkey(
    *, found: Credentials, proof: PasskeyProof, context: ClientContext, opener: SessionFactory = FIRST_PARTY
) -> OpenedSession:
    """Store a new session for somebody whose passkey was just right, instead of any password, and use the proof up.

    ``found``: whose it is. Counts and devices as above. Raises ``InvalidPasskey`` when the proof was used, or the
    account has changed; nothing has happened then. 9 queries at most.
    """
    if not proof.use():
        raise proof.refusal
    who = Authenticated(found.id, found.session_epoch)
    grant = open_authenticated(who=who, context=context, amr=BY_PASSKEY, opener=opener)
    if grant is None:
        raise proof.refusal
    _know(found.email, context)
    return grant


def _know(email: str, context: ClientContext) -> None:
    """Reset the account's count of wrong passwords, and know the client's device from now on."""
    throttling.succeeded_in_full(email=email, context=context)


def step_up(*, session_id: UUID, user_id: UUID, amr: str, proof: Proof | None = None) -> None:
    """Note in the session that its person has just proved who they are again, and make every worker see it.

    ``proof``: the second factor it was done with, used up here. Raises ``InvalidMfaCode`` or ``InvalidPasskey`` when it
    was used before, ``NotAuthenticated`` when the session is over. 3 queries and what the proof takes.
    """
    if proof is not None and not proof.use():
        raise proof.refusal
    if not session_queries.authenticate(session_id, user_id=user_id, amr=amr, now=clock.now()):
        raise NotAuthenticated
    invalidate(sid_tag(session_id))
    audit.record(Event.STEP_UP, actor_id=user_id, user_id=user_id, session_id=session_id)
