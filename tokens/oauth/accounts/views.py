"""The choice among the accounts that are signed in in one browser (``prompt=select_account``)."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema

from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access.credentials import refuse_login_csrf
from tokens.clients.registry import Client
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import responses
from tokens.oauth.authorize import services as authorizations
from tokens.oauth.authorize.request import SELECT_ACCOUNT, Unanswerable
from tokens.oauth.authorize.services import Decision, Step
from tokens.oauth.authorize.state import AuthorizationState
from tokens.oauth.authorize.views import EXPIRED, OAuthPage
from tokens.oauth.logout import request as logout_request
from tokens.oauth.logout.views import accounts_here
from tokens.sessions import browser_sessions
from tokens.sessions.browser_sessions import BrowserSession

log = get_logger()


class AccountForm(OAuthPage):
    """POST /oauth/account."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Go on as the person that was chosen, sign somebody out, or have another person sign in.

        On the way to a client the form has its state; on the page after a sign-out what shows that the page was seen.
        """
        if "request" not in request.data:
            return await self._here(request)
        state, client = await self.resumed(request)
        held = await database().read(browser_sessions.live, browser_sessions.read_all(request))
        if "other" in request.data or not held:
            return self._others_form(request, state, client)
        if "sign_out" in request.data:
            return await self._without(request, state, client, held)
        chosen = browser_sessions.of(held, id_of(request, "account"))
        if chosen is None:  # it has ended meanwhile
            return self._asked_again(request, state, client, held)
        return await self._as(request, state, client, [chosen, *(one for one in held if one is not chosen)])

    async def _as(
        self, request: ApiRequest, state: AuthorizationState, client: Client, held: Sequence[BrowserSession]
    ) -> HttpResponse:
        """Go on as the first of these, who are the browser's from now on."""
        cookie, session = held[0]
        log.info("account_chosen", user_id=str(session.account.id), session_id=str(session.id))
        wanted = _chosen(state).request
        known = msgspec.structs.replace(state, request=wanted)
        try:
            if state.device:  # as devices.decide says: they are always asked
                decision = Decision(Step.CONFIRM, session=session)
            else:
                decision = await authorizations.decide(request=wanted, client=client, cookie=cookie)
            if decision.step is Step.SIGN_IN:  # too long ago for this client, or it wants them to
                expected = msgspec.structs.replace(wanted, login_hint=session.account.user.email)
                known = msgspec.structs.replace(known, request=expected)
            response = self.shown(request, known, client, decision)
        except DomainError as error:
            response = self.handle_exception(error)
        browser_sessions.give(response, held)
        return response

    async def _without(
        self, request: ApiRequest, state: AuthorizationState, client: Client, held: Sequence[BrowserSession]
    ) -> HttpResponse:
        """Sign out of one account, and ask again."""
        ended = browser_sessions.of(held, id_of(request, "sign_out"))
        if ended is not None:
            await database().write(browser_sessions.end, ended)
        return self._asked_again(request, state, client, [one for one in held if one is not ended])

    def _asked_again(
        self, request: ApiRequest, state: AuthorizationState, client: Client, held: Sequence[BrowserSession]
    ) -> HttpResponse:
        """Show those who are left; where nobody is, the page on which one signs in."""
        if held:
            response = self.choice_shown(request, state, client, held)
        else:
            response = self._others_form(request, state, client)
        browser_sessions.forget(request, response, held)
        return response

    def _others_form(self, request: ApiRequest, state: AuthorizationState, client: Client) -> HttpResponse:
        """Show the page on which somebody signs in beside those who are signed in."""
        begun = msgspec.structs.replace(_chosen(state), keeps=True)
        return self.first_shown(request, begun, client, authorize_pages.sign_in)

    @staticmethod
    async def _here(request: ApiRequest) -> HttpResponse:
        """Make another account the current one, or sign out of it, where no client waits."""
        refuse_login_csrf(request._request)  # noqa: SLF001 - Django's request
        held = await database().read(browser_sessions.live, browser_sessions.read_all(request))
        signs_out = "sign_out" in request.data
        named = id_of(request, "sign_out" if signs_out else "account")
        if named is None or not logout_request.is_confirmation(str(request.data.get("confirmation", "")), named):
            raise Unanswerable(EXPIRED)
        meant = browser_sessions.of(held, named)
        if meant is None:  # it has ended meanwhile, as a rule by another click
            response = accounts_here(held, signed_out=signs_out) if held else responses.signed_out("", "", by_form=True)
            browser_sessions.forget(request, response, held)
            return response
        rest = [one for one in held if one is not meant]
        if not signs_out:
            response = accounts_here([meant, *rest], chosen=meant.session.account.user.email)
            browser_sessions.give(response, [meant, *rest])
            return response
        await database().write(browser_sessions.end, meant)
        response = accounts_here(rest, signed_out=True) if rest else responses.signed_out("", "", by_form=True)
        browser_sessions.forget(request, response, rest)
        return response


def _chosen(state: AuthorizationState) -> AuthorizationState:
    """Return the state of a request for which the account has been chosen."""
    asked = state.request
    prompt = tuple(one for one in asked.prompt if one != SELECT_ACCOUNT)
    return msgspec.structs.replace(state, request=msgspec.structs.replace(asked, prompt=prompt, login_hint=""))


def id_of(request: ApiRequest, field: str) -> UUID | None:
    """Return the session that a button names; None for any other text.

    Args:
        request: The form.
        field: What the button is called.
    """
    try:
        return UUID(str(request.data.get(field, "")))
    except ValueError:
        return None
