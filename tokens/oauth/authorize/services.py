"""What becomes of an authorization request: a code, or a question to the person. Units of work, and their service."""

import enum
from typing import Final, NamedTuple
from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import about_to_commit, database
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients import redirect_uris, subjects
from tokens.clients.documents import queries as documents
from tokens.clients.errors import AccessDenied, ConsentRequired, LoginRequired, UnmetRequirements
from tokens.clients.registry import Client
from tokens.oauth import codes, id_tokens
from tokens.oauth import details as authorization_details
from tokens.oauth.authorize.request import SELECT_ACCOUNT, AuthorizationRequest, Finished, Refused, Unanswerable
from tokens.oauth.authorize.state import LIFE_S, AuthorizationState
from tokens.oauth.codes import AuthorizationCodeData
from tokens.oauth.consent import units as consents
from tokens.oauth.endpoint import NO_MEMBER
from tokens.oauth.models import PushedRequest
from tokens.sessions import sso_session
from tokens.sessions.models import BY_KEPT_DEVICE
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.queries import OpenedSession, StoredSession
from tokens.sessions.sso_session import SsoCookie
from tokens.sign_in.proofs import MULTIPLE, SignInProof
from tokens.sign_in.services import recorded_refusals
from tokens.sign_in.units import SingleSignOn, open_session

log = get_logger()
#: What ``single_use`` knows pushed requests by.
PUSHED: Final = "pushed"


class Step(enum.Enum):
    """What comes next."""

    CODE = enum.auto()  # the client gets it
    SIGN_IN = enum.auto()  # who is there, or whether they still are, has to be found out
    CONFIRM = enum.auto()  # who is there has to allow it
    UNMET = enum.auto()  # who is there has not proved it as the client has to have it
    NO_MEMBER = enum.auto()  # who is there does not belong to the organization that the client names
    FINISHED = enum.auto()  # the pushed request was answered before


class Decision(NamedTuple):
    """What comes next, the code if it is that, and the SSO session if there is one."""

    step: Step
    code: str = ""
    session: StoredSession | None = None


async def sign_in(
    proof: SignInProof,
    *,
    state: AuthorizationState,
    client: Client,
    cookie: SsoCookie | None,
    others: tuple[SsoCookie, ...],
    context: ClientContext,
) -> tuple[OpenedSession, Decision]:
    """Open the browser's SSO session for a proof, and decide what comes next, in one unit of work.

    So the session is not read again (a tenth of the CPU time of a whole sign-in). ``answer`` is asked next.

    Args:
        proof: Who has proved to be who they are.
        state: The request on the way to which they did.
        client: The client that sent it.
        cookie: What the browser brings: its session is replaced, unless ``state`` keeps it.
        others: The other sessions that the browser brings.
        context: Where the sign-in comes from.

    Raises:
        DomainError: what the proof says where it was used, or the account or client has changed, since it was judged.
    """
    kind = SingleSignOn(cookie, others, state.keeps)
    async with recorded_refusals(proof, context):
        opened, decision = await database().write(
            _sign_in, proof, state=state, client=client, kind=kind, context=context
        )
    log.info("signed_in", user_id=str(proof.user_id), session_id=str(opened.session_id), amr=proof.amr)
    return opened, decision


def _sign_in(
    proof: SignInProof, *, state: AuthorizationState, client: Client, kind: SingleSignOn, context: ClientContext
) -> tuple[OpenedSession, Decision]:
    """Open the SSO session and decide what follows, in one unit of work.

    1 query more than opening the session, 2 unless the client is trusted; none for a device.
    """
    opened = open_session(proof, context=context, kind=kind)
    assert opened.stored is not None
    if state.device:  # as devices.decide says: they are always asked
        return opened, Decision(Step.CONFIRM, session=opened.stored)
    return opened, _decided(request=state.request, client=client, session=opened.stored, signed_in=True)


async def lead_on(session_id: UUID, *, state: AuthorizationState, client: Client) -> tuple[SsoCookie, Decision] | None:
    """Return the SSO session that the same form has just opened, and what comes next in it; None where it is over.

    Nothing is opened anew. A code of before that nobody has redeemed is replaced. ``answer`` is asked next.

    Args:
        session_id: The session.
        state: The authorization state of the form.
        client: The client that it leads to.

    Raises:
        Unanswerable: Client or person have been deleted meanwhile.
    """
    try:
        return await database().write(_lead_on, session_id, state=state, client=client)
    except IntegrityError as error:
        raise _gone(error) from error


def _lead_on(session_id: UUID, *, state: AuthorizationState, client: Client) -> tuple[SsoCookie, Decision] | None:
    found = sso_session.opened_just_now(session_id)
    if found is None:
        return None
    cookie, session = found
    if state.device:
        return cookie, Decision(Step.CONFIRM, session=session)
    return cookie, _decided(request=state.request, client=client, session=session, signed_in=True, again=True)


async def answer_again(state: AuthorizationState, client: Client, session: StoredSession) -> Decision:
    """Return what comes next where the same form has just finished a pushed request: a code in place of that one's.

    Args:
        state: The authorization state of the form.
        client: The client that it leads to.
        session: The SSO session of the person, as it was read.

    Raises:
        Unanswerable: Client or person have been deleted meanwhile.
    """
    try:
        return await database().write(_issue, state.request, client, session, again=True)
    except IntegrityError as error:
        raise _gone(error) from error


def answer(state: AuthorizationState, decision: Decision) -> Decision:
    """Return what comes next after a sign-in.

    Args:
        state: The authorization state of the page that was answered.
        decision: What comes next, not yet held against the request.

    Raises:
        Refused: another person than the client wants.
    """
    if decision.step is Step.SIGN_IN:
        reason = LoginRequired("Another person has signed in than the client asked for.")
        raise Refused(reason, state.request.target)
    return _told(state.request, decision)


async def decide(*, request: AuthorizationRequest, client: Client, cookie: SsoCookie | None) -> Decision:
    """Return what comes next for a request from a browser with this cookie.

    For a person who is signed in and has allowed it, or need not: 2 queries, 1 more unless the client is trusted, 1
    more once a minute.

    Args:
        request: The request, judged.
        client: The client that it names.
        cookie: The SSO cookie of the browser, not yet judged.

    Raises:
        Refused: where the client wants no questions.
        Unanswerable: client or person have been deleted meanwhile.
    """
    if cookie is None:
        return _told(request, Decision(Step.SIGN_IN))
    try:
        decision = await database().write_autocommit(_decide_and_issue, request=request, client=client, cookie=cookie)
    except IntegrityError as error:
        raise _gone(error) from error
    return _told(request, decision)


async def allow(
    *,
    request: AuthorizationRequest,
    client: Client,
    cookie: SsoCookie | None,
    session_id: UUID | None,
    again: bool = False,
) -> Decision:
    """Return the code for what the person has just allowed, in the SSO session they were asked in.

    In another one, or in none, they have to sign in: what was shown to one person is not allowed by another.

    Args:
        request: What was allowed.
        client: Who gets the code.
        cookie: What the browser brings.
        session_id: The SSO session of the person who was asked.
        again: Whether the same form has allowed it just before: its code is replaced.

    Raises:
        Finished: It was pushed, and has been answered before.
        Unanswerable: Client or person have been deleted meanwhile.
    """
    if cookie is None or cookie.session_id != session_id:
        return Decision(Step.SIGN_IN)
    try:
        decision = await database().write(
            _remember_and_issue, request=request, client=client, cookie=cookie, again=again
        )
    except IntegrityError as error:
        raise _gone(error) from error
    return _told(request, decision)


async def deny(*, request: AuthorizationRequest, client: Client, again: bool = False) -> Refused:
    """Return what the client hears when the person says no. No query, 2 for a pushed request.

    Args:
        request: The request, judged.
        client: The client that it names.
        again: Whether the same form has said no just before.

    Raises:
        Finished: It was pushed, and has been answered before.
    """
    if request.pushed and not again and not await database().write(_finish, request.pushed):
        raise Finished
    log.info("authorization_denied", client_id=client.client_id)
    return Refused(AccessDenied(), request.target)


def _decide_and_issue(*, request: AuthorizationRequest, client: Client, cookie: SsoCookie) -> Decision:
    """Decide what follows in the session of this browser, and issue the code where nothing is to be asked.

    A unit of work in autocommit mode, for the code is one insert and depends on nothing else that is written.
    """
    session = sso_session.find(cookie)
    if session is None or request.wants_sign_in(session.authenticated_at) or _lacks_factor(request, session):
        return Decision(Step.SIGN_IN)
    return _decided(request=request, client=client, session=session, signed_in=False)


def _lacks_factor(request: AuthorizationRequest, session: StoredSession) -> bool:
    """Return whether the client wants a second factor to be proved, and a new sign-in may do what this one has not."""
    amr = session.amr.split()
    needed = id_tokens.AAL2 in request.needed_acr.split() and not request.silent
    wanted = needed and not id_tokens.meets(amr, request.needed_acr)
    return MULTIPLE not in amr and (wanted or (request.wants_second_factor and BY_KEPT_DEVICE in amr))


def _decided(
    *, request: AuthorizationRequest, client: Client, session: StoredSession, signed_in: bool, again: bool = False
) -> Decision:
    """Return what comes next for this person; ``signed_in``: whether they have just signed in for this request."""
    if request.hint_sub and subjects.subject_of(client, session.account.id) != request.hint_sub:
        return Decision(Step.SIGN_IN)
    if not id_tokens.meets(session.amr.split(), request.needed_acr):
        return Decision(Step.UNMET)
    asked = "consent" in request.prompt or (SELECT_ACCOUNT in request.prompt and not signed_in)
    # The page says that nobody has checked the application. Where nobody may be asked, what was allowed before holds.
    asked = asked or (client.unverified and not request.silent)
    another = client.is_public and redirect_uris.any_program_may_claim(request.redirect_uri)
    if asked or (another and not signed_in) or not _is_allowed(request, client, session):
        return Decision(Step.CONFIRM, session=session)
    return _issue(request, client, session, again=again)


def _is_allowed(request: AuthorizationRequest, client: Client, session: StoredSession) -> bool:
    """Return whether the person need not be asked. 1 query, none for a client of our own.

    About authorization details people are asked each time, whatever they have allowed before and whose the client is.
    """
    if request.details:
        return False
    if client.trusted:
        return True
    allowed = consents.allowed(user_id=session.account.id, client_id=client.id)
    return allowed.covers(request.scope, request.resources)


def _remember_and_issue(
    *, request: AuthorizationRequest, client: Client, cookie: SsoCookie, again: bool = False
) -> Decision:
    """Note what was allowed, and return the code for it; a unit of work, one transaction.

    Where no code comes of it, nothing is noted: a pushed request may have got a no in another tab.
    """
    session = sso_session.find(cookie)
    if session is None:
        return Decision(Step.SIGN_IN)
    if not id_tokens.meets(session.amr.split(), request.needed_acr):  # renewed by a weaker sign-in since
        return Decision(Step.UNMET)
    # Else they have chosen who they are, no more.
    allows = not client.trusted or "consent" in request.prompt or bool(request.details)
    if allows and not sso_session.hold(session):
        return Decision(Step.SIGN_IN)
    decision = _issue(request, client, session, again=again, keeps=allows)
    if allows and decision.step is Step.CODE:
        given, types = consents.given(request.scope, request.resources), [one.type for one in request.details]
        whose = {"user_id": session.account.id, "client_id": client.id, "session_id": session.id}
        consents.remember(**whose, given=given, details=types, again=again)
    return decision


def _issue(
    request: AuthorizationRequest, client: Client, session: StoredSession, *, again: bool = False, keeps: bool = False
) -> Decision:
    """Return the code of a request that nothing stands in the way of. 1 query, 2 once a minute, 2 more if pushed.

    1 more where it names an organization: whether the person belongs there is asked once the client may know it.
    ``again``: the same form has got one just before. Nobody may have seen that, so this one takes its place (RFC 9126
    §4 lets a person send a page again). ``keeps``: what its document says of the client is stored, if it has one.
    """
    organization = organizations.named(session.account.id, request.organization) if request.organization else None
    if request.organization and organization is None:
        return Decision(Step.NO_MEMBER)
    if again:
        codes.withdraw(client_id=client.id, user_id=session.account.id, code_challenge=request.code_challenge)
    if request.pushed and not _finish(request.pushed) and not again:
        return Decision(Step.FINISHED)
    if keeps and client.document_url:
        documents.keep(client)
    sso_session.touch(session)
    about_to_commit()
    code = codes.issue(
        AuthorizationCodeData(
            client_id=client.id,
            user_id=session.account.id,
            epoch=session.epoch,
            scope=request.scope,
            redirect_uri=request.redirect_uri,
            code_challenge=request.code_challenge,
            nonce=request.nonce,
            dpop_jkt=request.dpop_jkt,
            authenticated_at=session.authenticated_at,
            amr=session.amr,
            sso_session_id=session.id,
            id_claims=request.id_claims,
            resources=" ".join(one.identifier for one in request.resources),
            details=authorization_details.stored(request.details) if request.details else "",
            organization_id=organization.id if organization is not None else None,
        )
    )
    return Decision(Step.CODE, code, session)


def _finish(digest: str) -> bool:
    """Use a pushed request up; return whether it had not been. Of several browsers that have opened it, one gets True.

    Unit of work, or a part of one. 2 queries. Pages that were opened before stay good as long as their state does.

    Args:
        digest: Of its handle.
    """
    first = single_use.consume(PUSHED, UUID(digest[:32]), int(clock.unix()) + LIFE_S)
    PushedRequest.objects.filter(pk=digest).delete()
    return first


def _gone(error: IntegrityError) -> Exception:
    """Return what to raise when a code could not be stored."""
    gone = Unanswerable(_("The application or the account has just been deleted."))
    return gone if refers_to_nothing(error) else error


def _told(request: AuthorizationRequest, decision: Decision) -> Decision:
    """Return the decision, with a line about a code.

    Raises ``Refused`` where the client wants no questions, or an organization that is not the person's.
    """
    if decision.step is Step.UNMET:
        raise Refused(UnmetRequirements(), request.target)
    if decision.step is Step.NO_MEMBER:
        raise Refused(AccessDenied(NO_MEMBER), request.target)
    if decision.step is Step.FINISHED:
        raise Finished
    if decision.step is not Step.CODE:
        if request.silent:
            raise Refused(LoginRequired() if decision.step is Step.SIGN_IN else ConsentRequired(), request.target)
    elif decision.session is not None:
        log.info(
            "authorization_given",
            client_id=request.client_id,
            user_id=str(decision.session.account.id),
            session_id=str(decision.session.id),
        )
    return decision
