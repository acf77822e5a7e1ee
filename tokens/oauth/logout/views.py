"""GET, POST /oauth/logout (OpenID Connect RP-Initiated Logout 1.0): a client sends somebody to sign out here.

Signing out ends the browser's SSO session and the sessions of clients that began in it without ``offline_access``, and
tells the clients that want to hear of it.

No session ends because some site asks for it (security-bar 52 and 66, ASVS 10.6.2). The browser brings the cookie of
its session, and either the client shows an ID token that was issued in this very session, or the person confirms it,
here or by signing out of our pages. An ID token without the cookie ends none.
"""

from collections.abc import Sequence
from uuid import UUID

from django.http import HttpResponse, QueryDict
from drf_spectacular.utils import extend_schema

from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import responses
from tokens.oauth.authorize.views import OAuthPage
from tokens.oauth.logout import request as logout_request
from tokens.oauth.logout.request import LogoutRequest, Person
from tokens.sessions import browser_sessions, sso_session
from tokens.sessions.browser_sessions import BrowserSession
from tokens.sessions.queries import StoredSession
from tokens.sessions.sso_session import SsoCookie

CONFIRMATION = "confirmation"  # the field that says the page's question was answered with yes
#: Its value from our page of a person's account, where signing out is what was asked for.
ON_OUR_PAGE = "account-page"

log = get_logger()


class LogoutView(OAuthPage):
    """GET, POST /oauth/logout."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Sign out and go on, or ask first."""
        return await answered(request, request.query_params)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Do what the page's form, or a client's, asks for.

        No cookie of ours comes with a form of another site, and all of them with a redirect: a GET is made of it, also
        of one that claims to be the page's own. Answering it here would take the cookie from the signed-in person.
        """
        data = request.data
        if not browser_sessions.read_all(request):
            asked = _without_confirmation(data)
            await logout_request.read(asked)  # what is wrong with it can be said at once
            return responses.repeated(request.path, asked.urlencode())
        # The browser's own word: a sibling site's form brings the cookie, but not this.
        here = data.get(CONFIRMATION) == ON_OUR_PAGE and cookies.origin_allowed(request)
        return await answered(request, data, confirmed=here)


async def answered(request: ApiRequest, parameters: QueryDict, *, confirmed: bool = False) -> HttpResponse:
    """Return the answer to a request with these parameters.

    Args:
        request: The request, for its cookie.
        parameters: The query, or the form.
        confirmed: Whether nobody needs to be asked.

    Raises:
        Unanswerable: What ``logout_request.read`` raises.
    """
    named = browser_sessions.read_all(request)
    held = await database().read(browser_sessions.to_end, named) if named else []
    confirmation = parameters.get(CONFIRMATION, "")
    wanted = await logout_request.read(_without_confirmation(parameters))
    session = _meant(wanted, held, sso_session.read_cookie(request))
    if session is not None and not confirmed and not _is_agreed(wanted, session, confirmation):
        return authorize_pages.sign_out(
            user=session.account.user if sso_session.signs_in(session) else None,
            client=wanted.client,
            confirmation=logout_request.confirmation(session.id),
            redirect_uri=wanted.redirect_uri,
            state=wanted.state,
        )
    if session is not None:
        await database().write(end, session_id=session.id, user_id=session.account.id)
    rest = [one for one in held if one.session is not session and sso_session.signs_in(one.session)]
    if rest and not wanted.redirect_uri:
        response = accounts_here(rest, signed_out=session is not None)
    else:
        response = responses.signed_out(wanted.redirect_uri, wanted.state, by_form=request.method == "POST")
    browser_sessions.forget(request, response, rest)
    return response


def accounts_here(held: Sequence[BrowserSession], *, signed_out: bool = False, chosen: str = "") -> HttpResponse:
    """Return the page that lists these accounts, where no client waits.

    Args:
        held: Who is signed in in this browser.
        signed_out: Whether somebody has just signed out of another account.
        chosen: The address of the account that has just been chosen, if one has.
    """
    seen = [(one.session, logout_request.confirmation(one.session.id)) for one in held]
    return authorize_pages.accounts_here(seen, signed_out=signed_out, chosen=chosen)


def end(*, session_id: UUID, user_id: UUID) -> None:
    """End this browser's SSO session as its person asks; one that is over stays as it is. A unit of work.

    Args:
        session_id: The SSO session.
        user_id: Its person.
    """
    if sso_session.end(session_id=session_id, user_id=user_id):
        log.info("signed_out", session_id=str(session_id))


def _meant(wanted: LogoutRequest, held: Sequence[BrowserSession], current: SsoCookie | None) -> StoredSession | None:
    """Return the session to end: the one of this browser that the client's ID token names, else the current one."""
    for _cookie, session in held:
        if wanted.person == Person(session.account.id, session.id):
            return session
    return next((session for cookie, session in held if cookie == current), None)


def _is_agreed(wanted: LogoutRequest, session: StoredSession, confirmation: str) -> bool:
    """Return whether the person in the browser wants it.

    Their client shows an ID token that they got in this session, or they have confirmed it. The token of another
    session, of theirs too, says nothing about this browser.
    """
    if wanted.person == Person(session.account.id, session.id):
        return True
    return logout_request.is_confirmation(confirmation, session.id)


def _without_confirmation(parameters: QueryDict) -> QueryDict:
    """Return what the client has asked for."""
    asked = parameters.copy()
    asked.pop(CONFIRMATION, None)
    return asked
