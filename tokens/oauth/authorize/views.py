"""/oauth/authorize and the pages behind it: input, one service call, a page or the answer to the client."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions

from ironauth.infrastructure.api.parsers import FormParser
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context, second_clicks
from ironauth.infrastructure.http.language import PageLanguage
from tokens.access.credentials import refuse_login_csrf
from tokens.clients.errors import OAuthError
from tokens.clients.registry import Client
from tokens.keys.store import key_store
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import pushed_requests, responses, to_provider
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize import services as authorizations
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.inputs import DecisionInput
from tokens.oauth.authorize.request import AuthorizationRequest, Finished, Refused, Unanswerable
from tokens.oauth.authorize.services import Decision, Step
from tokens.oauth.authorize.state import AccountState, AuthorizationState
from tokens.oauth.endpoint import DETAILS, MAX_BYTES, RESOURCE, SEVERAL, unique_parameters
from tokens.oauth.signed import request_objects, requests_at_addresses
from tokens.sessions import browser_sessions, sso_session, transport
from tokens.sessions.browser_sessions import BrowserSession
from tokens.upstream import providers
from tokens.upstream.providers import Provider

EXPIRED = _(
    "This page has expired, was opened in another browser, or cookies are off: go back to the application and sign in "
    "from there."
)
_UNREADABLE = _(
    "The application's signed request cannot be used: go back to the application, and tell the people who run it."
)
_METHOD = _("This address belongs to a form: go back to the application and sign in from there.")


class _Signing(AsyncAPIView):
    """What signs the answers that a client wants as JWTs (JARM)."""

    async def async_dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer as the view does; an answer that is to be signed is signed now, with the cookies it has got."""
        response = await super().async_dispatch(request, *args, **kwargs)
        if not isinstance(response, responses.Unsigned):
            return response
        try:
            return await responses.signed(response)
        except DomainError as error:
            return authorize_pages.error(detail=error.detail, status=error.status, headers=error.headers)


class OAuthPage(PageLanguage, _Signing):
    """What answers browsers: in HTML, whatever goes wrong."""

    authentication_classes: ClassVar[Any] = ()
    permission_classes = ()
    parser_classes = (FormParser,)

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Return the error as the client's, if it may hear of it, else as a page."""
        if isinstance(exc, Refused):
            return responses.refusal(exc.target, exc.reason, by_form=self.request.method == "POST")
        if isinstance(exc, DomainError):
            return authorize_pages.error(detail=exc.detail, status=exc.status, headers=exc.headers)
        problem = super().handle_exception(exc)  # logged there, when nobody expected it
        detail = _METHOD if isinstance(exc, exceptions.MethodNotAllowed) else _("The request could not be answered.")
        headers = {name: problem[name] for name in ("Allow", "Retry-After") if name in problem.headers}
        return authorize_pages.error(detail=detail, status=problem.status_code, headers=headers)

    async def resumed(self, request: ApiRequest) -> tuple[AuthorizationState, Client]:
        """Return the authorization state of a form, and its client.

        Raises:
            CrossOrigin: another site has sent it.
            Unanswerable: as ``resumed_sign_in``; or it leads to no client.
        """
        state, client = await self.resumed_sign_in(request)
        if client is None or not isinstance(state, AuthorizationState):
            raise Unanswerable(EXPIRED)
        return state, client

    async def resumed_sign_in(self, request: ApiRequest) -> tuple[AuthorizationState | AccountState, Client | None]:
        """Return the state of a form that signs somebody in, and the client that it leads to, if it does.

        Raises:
            CrossOrigin: another site has sent it.
            SigningKeyMissing: (503) it leads to a page of this site, and no token could be signed.
            Unanswerable: it is not one of this browser's forms of the last half hour, or its client has been changed
                meanwhile.
        """
        refuse_login_csrf(request._request)  # noqa: SLF001 - Django's request
        await providers.refresh()
        state = authorization_state.verify(
            str(request.data.get("request", "")), authorization_state.browser_of(request)
        )
        if state is None:
            raise Unanswerable(EXPIRED)
        if isinstance(state, AccountState):
            await key_store().signing()  # before anything is used up that only a signed token is good for
            return state, None
        client = await authorization_request.enabled_client(state.request.client_id)
        if not state.may_go_on(client):
            raise Unanswerable(EXPIRED)
        return state, client

    def shown(self, request: ApiRequest, state: AuthorizationState, client: Client, decision: Decision) -> HttpResponse:
        """Return the page, or the answer to the client, that a decision amounts to."""
        if decision.step is Step.CODE:
            by_form = request.method == "POST"
            return responses.answer(state.request.target, by_form=by_form, code=decision.code)
        if decision.session is None:
            return self.first_shown(request, state, client, authorize_pages.sign_in)
        browser = authorization_state.browser_of(request) or authorization_state.new_browser()
        asked = msgspec.structs.replace(state, session_id=decision.session.id)
        response = authorize_pages.consent(asked, client, browser, decision.session)
        authorization_state.remember_browser(response, browser)
        return response

    @staticmethod
    def choice_shown(
        request: ApiRequest, state: AuthorizationState, client: Client, held: Sequence[BrowserSession]
    ) -> HttpResponse:
        """Return the page that asks with which of these accounts to go on, and know this browser again."""
        browser = authorization_state.browser_of(request) or authorization_state.new_browser()
        response = authorize_pages.accounts(state, client, browser, [one.session for one in held])
        authorization_state.remember_browser(response, browser)
        return response

    @staticmethod
    def first_shown(
        request: ApiRequest,
        state: AuthorizationState | AccountState,
        client: Client | None,
        page: Callable[..., HttpResponse],
    ) -> HttpResponse:
        """Return the page on which somebody signs in or up, and know this browser again."""
        browser = authorization_state.browser_of(request) or authorization_state.new_browser()
        response = page(state, client, browser)
        authorization_state.remember_browser(response, browser)
        return response

    async def sent_on(
        self,
        request: ApiRequest,
        state: AuthorizationState | AccountState,
        client: Client | None,
        provider: Provider,
        email: str = "",
    ) -> HttpResponse:
        """Return the way to another provider; where it does not answer, the page with the other ways in.

        Args:
            request: The request, for its browser and address.
            state: Where the person comes from.
            client: The client that it leads to, if it does.
            provider: Where they sign in.
            email: The address that they have typed, if they have.
        """
        browser = authorization_state.browser_of(request) or authorization_state.new_browser()
        try:
            address = client_context.address_of(request)
            previous = transport.previous_of(request)
            response = await to_provider.go(
                provider, state, browser=browser, address=address, email=email, previous=previous
            )
        except DomainError as error:
            refusal: dict[str, Any] = {"problem": error.detail, "status": error.status, "headers": error.headers}
            response = authorize_pages.sign_in(state, client, browser, email=email, **refusal)
        authorization_state.remember_browser(response, browser)
        return response


class AuthorizeView(OAuthPage):
    """GET, POST /oauth/authorize."""

    http_method_names = ("get", "post", "options")

    @extend_schema(exclude=True)
    async def head(self, request: ApiRequest) -> HttpResponse:
        """Refuse what a checker of links sends: it would make a code for nobody."""
        raise exceptions.MethodNotAllowed("HEAD")

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Answer a client's authorization request, or ask the person what it takes to."""
        if len(request.META.get("QUERY_STRING", "")) > MAX_BYTES:
            raise Unanswerable(_too_long())
        await providers.refresh()
        client, wanted = await _read(request.query_params)
        begun, cookie = authorization_state.begin(wanted), sso_session.read_cookie(request)
        if wanted.wants_choice and (held := await _accounts(request)):
            return self.choice_shown(request, begun, client, held)
        decision = await authorizations.decide(request=wanted, client=client, cookie=cookie)
        provider = providers.wanted(request.query_params.get("provider", ""), wanted.login_hint)
        if decision.step is Step.SIGN_IN and provider is not None:
            return await self.sent_on(request, begun, client, provider)
        if decision.step is Step.SIGN_IN and wanted.wants_sign_up:
            return self.first_shown(request, begun, client, authorize_pages.sign_up)
        if decision.step is Step.SIGN_IN and "login" not in wanted.prompt and sso_session.read_others(request):
            held = await _accounts(request)
            if held and held[0].cookie != cookie:  # who was the current one has left, the others have not
                return self.choice_shown(request, begun, client, held)
        return self.shown(request, begun, client, decision)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Make a GET of it: no cookie of ours comes with a form of another site, and all of them with a redirect."""
        query = request.data.urlencode()
        if len(query) > MAX_BYTES:
            raise Unanswerable(_too_long())
        return responses.repeated(request.path, query)


class ConsentView(OAuthPage):
    """POST /oauth/consent."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Let the client have what was shown, or not, or let somebody else sign in."""
        state, client = await self.resumed(request)
        said = (await self.validated(request, DecisionInput))["decision"]
        return await self.answered(request, state, client, said)

    async def answered(self, request: ApiRequest, state: AuthorizationState, client: Client, said: str) -> HttpResponse:
        """Return what comes after "allow", "deny" or "switch".

        Of a pushed request the same answer counts twice where it is a second click.

        Raises:
            Finished: It was pushed, and has got another answer, or this one a while ago.
        """
        if said == "switch":
            if sso_session.read_others(request) and (held := await _accounts(request)):
                return self.choice_shown(request, state, client, held)
            return self.shown(request, state, client, Decision(Step.SIGN_IN))
        try:
            return await self._answered(request, state, client, is_yes=said != "deny")
        except Finished:
            if await second_clicks.first_of(request) is None:
                raise
            return await self._answered(request, state, client, is_yes=said != "deny", again=True)

    async def _answered(
        self, request: ApiRequest, state: AuthorizationState, client: Client, *, is_yes: bool, again: bool = False
    ) -> HttpResponse:
        if not is_yes:
            refused = await authorizations.deny(request=state.request, client=client, again=again)
            response = responses.refusal(refused.target, refused.reason, by_form=True)
            if state.request.pushed:
                await second_clicks.note(request)
            return response
        cookie = sso_session.read_cookie(request)
        decision = await authorizations.allow(
            request=state.request, client=client, cookie=cookie, session_id=state.session_id, again=again
        )
        if state.request.pushed and decision.step is Step.CODE:
            await second_clicks.note(request)
        return self.shown(request, state, client, decision)


def _too_long() -> str:
    text = gettext("The request is longer than {most} bytes: the application may push it instead.")
    return text.format(most=MAX_BYTES)


async def _accounts(request: ApiRequest) -> list[BrowserSession]:
    """Return who is signed in in this browser, the current one first. 1 query for each."""
    named = browser_sessions.read_all(request)
    return await database().read(browser_sessions.live, named) if named else []


async def _read(query: QueryDict) -> tuple[Client, AuthorizationRequest]:
    """Return who asks, and for what.

    Raises ``Unanswerable`` where nothing may be redirected, ``Refused`` with what the client is to hear.
    """
    client = await authorization_request.client_of(query)
    handles = query.getlist("request_uri")
    pushed = ""
    if len(handles) == 1 and handles[0].startswith(pushed_requests.PREFIX):
        pushed, query = await pushed_requests.opened(client=client, request_uri=handles[0])
    elif client.signs_requests or (handles and client.request_uris):
        query = await _opened(client, query)
    target = authorization_request.target_of(client, query)
    try:
        given = unique_parameters(query, SEVERAL)
        checked = authorization_request.check(client, given, target, pushed=bool(pushed))
        if authorization_request.is_aimed(client, given):
            asked, detailed = given.get(RESOURCE, ""), given.get(DETAILS, "")
            checked = await authorization_request.aimed(client, checked, asked=asked, detailed=detailed)
        wanted = msgspec.structs.replace(checked, pushed=pushed) if pushed else checked
        return client, await authorization_request.with_hint(client, wanted, given.get("id_token_hint"))
    except OAuthError as error:
        raise Refused(error, target) from error


async def _opened(client: Client, query: QueryDict) -> QueryDict:
    """Return what a client asks for that signs its requests, or has them at an address.

    An object that is refused names no address that could be trusted: the error goes to one that stands beside it.
    """
    try:
        if client.request_uris and "request_uri" in query:
            return await requests_at_addresses.opened(client, query)
        return await request_objects.opened(client, query)
    except OAuthError as error:
        if "redirect_uri" not in query:
            raise Unanswerable(_UNREADABLE) from error
        raise Refused(error, authorization_request.target_of(client, query)) from error
