"""Units of work of a sign-in: open a session for a proof, and confirm one. Synchronous, run by the database pool.

Unlike those of ``sessions.units`` they raise: the rollback gives back the code or ticket that opened nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.users import queries as user_queries
from accounts.users.outputs import Account
from accounts.users.proofs import Proof
from accounts.users.queries import Credentials
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.errors import InvalidMfaToken
from tokens.sessions import browser_sessions, known_devices, sso_session
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.browser_sessions import BySession
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import BY_PASSWORD, sid_tag
from tokens.sessions.queries import OpenedSession, StoredSession
from tokens.sessions.sso_session import SsoCookie
from tokens.sign_in import mfa_token
from tokens.sign_in.mfa_token import MfaTicket
from tokens.sign_in.proofs import ByKeptDevice, SignInProof


@dataclass(frozen=True, slots=True)
class FirstParty:
    """Open a session of this service's own API, whose tokens have the scope ``account``.

    ``began_in``: the browser's SSO session that it goes on from; it ends with that, and lives no longer.
    """

    began_in: StoredSession | None = None


@dataclass(frozen=True, slots=True)
class SingleSignOn:
    """Open the SSO session of a browser that brings ``cookie``, None for none, and ``others``.

    ``keeps``: whether the session of ``cookie`` stays beside it where it is somebody else's. ``until``: when it ends at
    the latest, where it goes on from another session.
    """

    cookie: SsoCookie | None = None
    others: tuple[SsoCookie, ...] = ()
    keeps: bool = False
    until: datetime | None = None


#: What kind of session a proof opens.
type SessionKind = FirstParty | SingleSignOn
FIRST_PARTY: Final = FirstParty()


def open_session(proof: SignInProof, *, context: ClientContext, kind: SessionKind = FIRST_PARTY) -> OpenedSession:
    """Open a session for a proof.

    Uses up what the proof was made with, makes room among the person's sessions, stores the session and the audit
    event, notes the device (IRONAUTH_NEW_DEVICE_MAIL), and resets the counts of failures. 4 queries for a session of
    the API, and what consuming and resetting take.

    Args:
        proof: Who has proved to be who they are, and how.
        context: Where the sign-in comes from.
        kind: What kind of session is opened.

    Returns:
        The opened session, before it is committed.

    Raises:
        DomainError: what the proof says: it was used before, or the person was deactivated, changed the password, or
            ended all sessions, since it was made. Nothing has happened then.
        NotAuthenticated: the session that a ``BySession`` goes on from is over.
        IntegrityError: the person was deleted between the two queries.
    """
    proof.consume()
    account = user_queries.account_snapshot(proof.user_id)
    if account is None or not account.user.is_active or account.session_epoch != proof.session_epoch:
        raise proof.account_changed()
    replaces = None
    if isinstance(kind, FirstParty) and (context.previous or context.replaces or context.browser):
        replaces = session_ends.end_replaced(context, user_id=account.id, goes_on=isinstance(proof, BySession))
    sessions.make_room(account, keep=proof.session.id if isinstance(proof, BySession) else _parent_of(kind))
    if isinstance(proof, BySession):
        proof.hold()
        if isinstance(kind, FirstParty) and kind.began_in is not None:
            replaces = session_ends.end_others_of(kind.began_in) or replaces
    opened = _store(proof, account, context, kind)
    how = {} if proof.amr == BY_PASSWORD else {"by": proof.amr}
    event = Event.SIGN_IN
    if isinstance(proof, BySession):
        event = Event.SESSION_CONTINUED
        how |= proof.details()
    if replaces is not None:
        how["replaces"] = str(replaces)
    audit.record(event, actor_id=account.id, user_id=account.id, session_id=opened.session_id, details=how)
    device_id = _kept_device(proof, context)
    if device_id is not None:
        session_queries.note_device(opened.session_id, device_id)
    if settings.IRONAUTH_NEW_DEVICE_MAIL:
        known_devices.note(account=account, context=context)
    proof.reset_counters(context)  # last: many share its rows
    return opened


def _kept_device(proof: SignInProof, context: ClientContext) -> UUID | None:
    """Return the kept device that the browser brings, if it is this person's. 1 query where it brings one."""
    if isinstance(proof, ByKeptDevice):
        return proof.kept.id
    if not context.kept_device:
        return None
    kept = kept_devices.find(user_id=proof.user_id, epoch=proof.session_epoch, secret=context.kept_device)
    return kept.id if kept is not None else None


def keep_device(*, session_id: UUID, device_id: UUID) -> None:
    """Note that the session just opened is in the browser of this device; thrown out meanwhile, it takes it along.

    Args:
        session_id: The session.
        device_id: The device.
    """
    if not session_queries.note_device(session_id, device_id):
        kept_devices.end([device_id])


def _store(proof: SignInProof, account: Account, context: ClientContext, kind: SessionKind) -> OpenedSession:
    match kind:
        case SingleSignOn(cookie, others, keeps, until) if others or keeps:
            return browser_sessions.store(
                account=account,
                context=context,
                amr=proof.amr,
                authenticated_at=proof.proved_at,
                current=cookie,
                others=others,
                keeps=keeps,
                until=until,
            )
        case SingleSignOn(cookie):
            previous = sso_session.find(cookie) if cookie is not None else None
            return sso_session.store(
                account=account, context=context, amr=proof.amr, authenticated_at=proof.proved_at, previous=previous
            )
        case FirstParty(began_in):
            return sessions.store_first_party(
                account=account,
                context=context,
                amr=proof.amr,
                authenticated_at=proof.proved_at,
                parent_id=_parent_of(kind),
                until=began_in.absolute_expires_at if began_in is not None else None,
            )


def _parent_of(kind: SessionKind) -> UUID | None:
    """Return the SSO session that a session of this kind begins in."""
    return kind.began_in.id if isinstance(kind, FirstParty) and kind.began_in is not None else None


def holder_of(ticket: MfaTicket) -> Credentials:
    """Return whose ticket it is. Two queries.

    Raises:
        InvalidMfaToken: it was used, or its user is gone, inactive, or had their sessions ended since.
    """
    found = user_queries.credentials_of_id(ticket.user_id)
    if found is None or not found.is_active or found.session_epoch != ticket.session_epoch:
        raise InvalidMfaToken
    if single_use.is_used(mfa_token.ONCE, ticket.id):
        raise InvalidMfaToken
    return found


def step_up(*, session_id: UUID, user_id: UUID, amr: str, proof: Proof | None = None) -> None:
    """Note in the session that its person has just proved who they are again, and make every worker see it.

    3 queries and what the proof takes.

    Args:
        session_id: The session.
        user_id: Its person.
        amr: How the session has been authenticated from now on (RFC 8176).
        proof: The second factor it was done with, used up here; None for the password.

    Raises:
        SecondFactorRefused: (401) the proof was used before.
        NotAuthenticated: (401) the session is over.
    """
    if proof is not None and not proof.use():
        raise proof.refusal
    if not session_queries.authenticate(session_id, user_id=user_id, amr=amr, now=clock.now()):
        raise NotAuthenticated
    invalidate(sid_tag(session_id))
    audit.record(Event.STEP_UP, actor_id=user_id, user_id=user_id, session_id=session_id)
