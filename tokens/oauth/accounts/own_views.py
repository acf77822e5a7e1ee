"""The accounts of a browser at this site's own pages: the page that lists them, and going on as one of them."""

from collections.abc import Sequence
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from drf_spectacular.utils import extend_schema

from ironauth.config.cookies import ACTING
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.cache.two_level import ReadMark, token_cache
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context, cookies
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access.credentials import refuse_login_csrf
from tokens.keys.store import key_store
from tokens.oauth.accounts import units
from tokens.oauth.accounts.units import Here
from tokens.oauth.accounts.views import id_of
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import responses
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.authorize.sign_up_views import destination
from tokens.oauth.authorize.views import EXPIRED, OAuthPage
from tokens.oauth.logout import request as logout_request
from tokens.sessions import browser_sessions, sso_session, transport
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.browser_sessions import MOST_OTHERS, BrowserSession
from tokens.sessions.queries import OpenedSession
from tokens.sessions.sso_session import MOST_IN_BROWSER, SsoCookie

log = get_logger()


class AccountsPage(OAuthPage):
    """GET, POST /account/accounts; ``next`` is a path of this site to go on to."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """List the accounts of this browser; where there is none, go to where one signs in."""
        there = destination(request.query_params.get("next", ""))
        if cookies.name_of(ACTING) in request.COOKIES:  # staff who act as somebody have one account here
            return responses.on_to_account(reverse("email-pages:security-page"))
        return _listed(request, await _here(request), there)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Go on as the account that was chosen, sign out of one or of all, or have another person sign in.

        A form has what shows that the page was seen on which the account stands.
        """
        refuse_login_csrf(request._request)  # noqa: SLF001 - Django's request
        if cookies.name_of(ACTING) in request.COOKIES:  # they have begun in another tab
            return responses.on_to_account(reverse("email-pages:security-page"))
        there = destination(str(request.data.get("next", "")))
        mark = token_cache().mark()  # before the people are read: the token that they may get tells what was read
        here = await _here(request)
        field = next((one for one in ("account", "sign_out", "sign_out_all", "other") if one in request.data), "")
        named = id_of(request, field)
        if field and not here:  # all of them have ended meanwhile
            return _sign_in(there)
        if named is None or not logout_request.is_confirmation(str(request.data.get("confirmation", "")), named):
            raise Unanswerable(EXPIRED)
        meant = units.of(here, named)
        if meant is None:  # it has ended meanwhile, as a rule by another click
            return _listed(request, here, there, signed_out=field in ("sign_out", "sign_out_all"))
        if field in ("sign_out", "sign_out_all"):
            return await _signed_out(request, here, here if field == "sign_out_all" else [meant], there)
        return await _gone_on(request, here, meant if field == "account" else None, there, mark)


class OwnSession(OAuthPage):
    """POST /oauth/account/session: what the account's pages ask for where the browser has an SSO session alone."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Open the session of the account's pages from the browser's current SSO session; 401 where there is none.

        Not from another one: nobody goes on as somebody they have not chosen.
        """
        refuse_login_csrf(request._request)  # noqa: SLF001 - Django's request
        current = sso_session.read_cookie(request)
        held = await database().read(browser_sessions.live, [current]) if current is not None else []
        if not held or cookies.name_of(ACTING) in request.COOKIES:
            raise NotAuthenticated
        response = transport.no_content()
        await _open(request, response, held[0], [])
        return response


async def _here(request: ApiRequest) -> list[Here]:
    """Return who is signed in in this browser. 1 query for each session that it names."""
    named, token = browser_sessions.read_all(request), transport.previous_of(request)
    return await database().read(units.of_browser, named, token) if named or token else []


async def _open(
    request: ApiRequest, response: HttpResponse, chosen: BrowserSession, here: Sequence[Here]
) -> SsoCookie | None:
    """Open the session of the account's pages, and give its cookies. See ``units.go_on``."""
    context = client_context.context_of(request)._replace(previous=transport.previous_of(request))
    mark = token_cache().mark()
    key = await key_store().signing()
    opened: OpenedSession
    browser = client_context.browser_of(request)
    opened, stays = await database().write(units.go_on, chosen, here=here, context=context, browser=browser)
    log.info("account_gone_on", user_id=str(opened.account.id), session_id=str(opened.session_id))
    transport.set_cookies(response, token_pair(opened, key, mark))
    return stays


async def _gone_on(
    request: ApiRequest, here: Sequence[Here], meant: Here | None, there: str, mark: ReadMark
) -> HttpResponse:
    """Go on as this account, or with None to where another person signs in; in a browser that is known alone.

    What it opens is known by that for the grace of a refresh at least: an honest second click finds it.
    """
    browser = client_context.browser_of(request)
    if not browser:  # its cookie has expired meanwhile
        return _listed(request, here, there)
    try:
        response = await (
            _beside(request, here, there, mark) if meant is None else _switched(request, here, meant, there, mark)
        )
    except NotAuthenticated:  # other clicks were faster twice
        return _listed(request, await _here(request), there)
    authorization_state.remember_browser(response, browser)
    return response


async def _switched(request: ApiRequest, here: Sequence[Here], meant: Here, there: str, mark: ReadMark) -> HttpResponse:
    """Go on as this account; applications use it from now on, too."""
    response = responses.on_to_account(there)
    if meant.held is None:  # it is the present one: applications had another one, or none
        return await _present_everywhere(request, here, there, mark)
    stays = None
    if meant.own is None:
        try:
            stays = await _open(request, response, meant.held, here)
        except NotAuthenticated:  # as a rule by another click, which has ended the session of the one before
            here = await _here(request)
            again = units.of(here, meant.session.id)
            if again is None or again.held is None:
                return _listed(request, here, there)
            stays = await _open(request, response, again.held, here) if again.own is None else None
    others = [one.held for one in here if one.held is not None and one.held.cookie != meant.held.cookie]
    browser_sessions.give(response, [meant.held, *others])
    if stays is not None:
        texts = [one.text for one in (stays, *(one.cookie for one in others))]
        browser_sessions.give_others(response, texts[:MOST_OTHERS])
    return response


async def _present_everywhere(request: ApiRequest, here: Sequence[Here], there: str, mark: ReadMark) -> HttpResponse:
    """Have applications use the account of the account's pages, which has no SSO session in this browser yet."""
    response = responses.on_to_account(there)
    here, stays = await _keep(request, response, here, mark) or (here, None)
    if stays is None:
        return _listed(request, await _here(request), there)
    sso_session.give_cookie(response, stays.text, max_age_s=settings.IRONAUTH_SSO_ABSOLUTE_S)
    others = [one.held.cookie.text for one in here if one.held is not None and one.held.cookie != stays]
    browser_sessions.give_others(response, others[:MOST_OTHERS])
    return response


async def _beside(request: ApiRequest, here: Sequence[Here], there: str, mark: ReadMark) -> HttpResponse:
    """Go to where another person signs in; the present account stays signed in in this browser."""
    response = _sign_in(there)
    kept = await _keep(request, response, here, mark)
    if kept is None:
        return _listed(request, await _here(request), there)
    here, stays = kept
    if stays is not None:
        current = sso_session.read_cookie(request)
        others = [one.held.cookie for one in here if one.held is not None and one.held.cookie != current]
        is_there = any(one.held is not None and one.held.cookie == current for one in here)
        if not is_there and sso_session.cookie_name() in request.COOKIES:
            sso_session.clear_cookie(response)
        browser_sessions.give_others(response, [one.text for one in (stays, *others)][: MOST_IN_BROWSER - is_there])
    return response


async def _keep(
    request: ApiRequest, response: HttpResponse, here: Sequence[Here], mark: ReadMark
) -> tuple[Sequence[Here], SsoCookie | None] | None:
    """Keep the account of the account's pages in the browser, and give their next token. See ``units.beside``.

    Returns:
        The accounts as they were read last, and the SSO session that keeps it; None where other clicks were faster.
    """
    context = client_context.context_of(request)._replace(browser=client_context.browser_of(request))
    token = transport.previous_of(request)
    key = await key_store().signing()
    try:
        stays, own = await database().write(units.beside, here, token=token, context=context)
    except (units.MovedOn, NotAuthenticated):  # as a rule by another click, which has changed what this one has read
        here = await _here(request)
        try:
            stays, own = await database().write(units.beside, here, token=token, context=context)
        except units.MovedOn:
            return None
    if own is not None:
        transport.set_cookies(response, token_pair(own, key, mark))
    return here, stays


async def _signed_out(request: ApiRequest, here: Sequence[Here], ended: Sequence[Here], there: str) -> HttpResponse:
    """Sign out of these accounts, and show those that are left."""
    await database().write(units.sign_out, ended)
    rest = [one for one in here if one not in ended]
    response = _listed(request, rest, there, signed_out=True)
    if any(one.own is not None for one in ended):
        cookies.clear(response)
    browser_sessions.forget(request, response, [one.held for one in rest if one.held is not None])
    return response


def _listed(request: ApiRequest, here: Sequence[Here], there: str, *, signed_out: bool = False) -> HttpResponse:
    """Show the accounts, and know this browser again: what keeps an account is opened in a known one alone.

    Where none is left, go to where one signs in.
    """
    if not here:
        return _sign_in(there)
    seen = [(one.session, logout_request.confirmation(one.session.id), one.own is not None) for one in here]
    response = authorize_pages.own_accounts(seen, there=there, signed_out=signed_out)
    browser = authorization_state.browser_of(request) or authorization_state.new_browser()
    authorization_state.remember_browser(response, browser)
    return response


def _sign_in(there: str) -> HttpResponse:
    return responses.on_to_account(f"{reverse('email-pages:signin-page')}?{urlencode({'next': there})}")
