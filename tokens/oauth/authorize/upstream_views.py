"""The way to another provider and back, and a person's identities there.

POST /oauth/upstream sends somebody to another provider; /oauth/upstream/<short name> is where they come back.
"""

from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from django.http import HttpResponse, JsonResponse
from django.urls import NoReverseMatch, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response

from accounts.errors import LastWayIn, StepUpRequired
from accounts.federation import services as identities
from accounts.federation.errors import UpstreamRefused, UpstreamUnavailable
from accounts.federation.outputs import ConnectOut, IdentitiesOut, ProviderOut
from accounts.federation.queries import identities as identities_of
from accounts.federation.rules import Step
from accounts.lockout import rate_limits
from accounts.pages import connected
from accounts.privacy import terms
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import DomainError, NotFound, Throttled, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from tokens.clients.registry import Client
from tokens.errors import CrossOrigin, InsufficientScope, InvalidToken, MfaRequired, TwoCredentials
from tokens.keys.store import key_store
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize import responses, to_provider
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.inputs import ConnectInput
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.authorize.sign_in_views import SignInForm, refusal_of
from tokens.oauth.authorize.state import LIFE_S, AccountState, AuthorizationState
from tokens.oauth.authorize.views import EXPIRED, OAuthPage
from tokens.oauth.endpoint import MAX_BYTES
from tokens.sessions import transport
from tokens.upstream import providers, services
from tokens.upstream.administration import sign_in_trial


class UpstreamForm(SignInForm):
    """POST /oauth/upstream."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Send the person on to the provider whose button was pressed."""
        state, client = await self.resumed_sign_in(request)
        browser = authorization_state.browser_of(request)
        provider = providers.by_slug(str(request.data.get("provider", "")))
        if provider is None:
            raise NotFound
        try:
            address, previous = client_context.address_of(request), transport.previous_of(request)
            return await to_provider.go(provider, state, browser=browser, address=address, previous=previous)
        except DomainError as error:
            return authorize_pages.sign_in(state, client, browser, **refusal_of(error))


class UpstreamCallback(SignInForm):
    """GET, POST /oauth/upstream/<short name>."""

    http_method_names = ("get", "post", "options")

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest, slug: str) -> HttpResponse:
        """Make a GET of it: with a form of another site no cookie of ours comes."""
        query = request.data.urlencode()
        if len(query) > MAX_BYTES:
            raise Unanswerable(EXPIRED)
        return responses.repeated(request.path, query)

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest, slug: str) -> HttpResponse:
        """Sign in the person the provider names, or say what comes first; a trial of staff goes on in the admin."""
        if sign_in_trial.is_trial(request.query_params.get("state", "")):
            return responses.repeated(*_of_staff(request, slug))
        try:
            response = await self._returned(request, slug)
        except DomainError as error:
            response = self.handle_exception(error)
        return responses.with_clean_address(response)

    async def _returned(self, request: ApiRequest, slug: str) -> HttpResponse:
        browser = authorization_state.browser_of(request)
        await providers.refresh()
        provider = providers.by_slug(slug)
        answer = {name: request.query_params.get(name, "") for name in ("state", "code", "iss", "error", "user")}
        answer = {name: value for name, value in answer.items() if value}
        begun = None
        if provider is not None and browser and "state" in answer:
            begun = await services.returned(slug=slug, state=answer["state"], browser=browser)
        if begun is None or provider is None:
            raise Unanswerable(EXPIRED)
        if begun.user_id is not None:
            ended = await services.connect(provider=provider, begun=begun, answer=answer)
            told = connected.address(user_id=begun.user_id, provider=provider.name, user_agents=ended or ())
            return responses.on_to_account(told)
        state = authorization_state.restored(begun.page)
        if state is None:
            raise Unanswerable(EXPIRED)
        client = await _client_of(state)
        context = transport.context_of_return(request._request)  # noqa: SLF001 - Django's request
        if isinstance(state, AccountState):
            context = context._replace(replaces=str(state.replaces or ""))
        try:
            if await services.stays(provider):
                state = msgspec.structs.replace(state, upstream_id=begun.id)
            found = await services.verify(provider=provider, begun=begun, answer=answer, since=state.since)
            if isinstance(found, services.FirstStep):
                named: dict[str, Any] = {"upstream": found.who, "auth_time": found.auth_time}
                waits = msgspec.structs.replace(state, upstream_id=begun.id, **named)
                return _first(found.step, waits, client, browser, email=found.email, name=found.name)
            return await self.signed_in(request, found, state=state, client=client, context=context)
        except MfaRequired as needed:
            return self.ask_second_factor(needed, state, client, browser)
        except DomainError as error:
            return authorize_pages.sign_in(state, client, browser, **refusal_of(error))


def _of_staff(request: ApiRequest, slug: str) -> tuple[str, str]:
    """Return the page of the admin that a trial of a provider goes on at, and what it is told.

    Raises:
        Unanswerable: There is no admin, or the answer is longer than any.
    """
    query = request.query_params.urlencode()
    try:
        path = reverse("admin:accounts_upstreamprovider_tried", args=[slug])
    except NoReverseMatch as error:
        raise Unanswerable(EXPIRED) from error
    if len(query) > MAX_BYTES:
        raise Unanswerable(EXPIRED)
    return path, query


class TermsForm(SignInForm):
    """POST /oauth/terms: consent to the terms, before an account is made of an identity at another provider."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Make the account and sign in, or show the page again."""
        state, client = await self.resumed_sign_in(request)
        browser = authorization_state.browser_of(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        if state.upstream_id is None:
            raise Unanswerable(EXPIRED)
        version = str(request.data.get("terms_version", ""))
        try:
            found = await services.accept_terms(
                waiting_id=state.upstream_id, browser=browser, version=version, auth_time=state.auth_time
            )
            if isinstance(found, Step):
                return _first(found, state, client, browser, email="")
            if found is not None:
                return await self.signed_in(request, found, state=state, client=client, context=context)
        except ValidationFailed as error:
            errors = {reason.field: [reason.message] for reason in error.errors}
            return _terms(state, client, browser, errors=errors, status=error.status)
        except MfaRequired as needed:
            return self.ask_second_factor(needed, state, client, browser)
        except DomainError as error:
            return authorize_pages.sign_in(state, client, browser, **refusal_of(error))
        raise Unanswerable(EXPIRED)


def _terms(
    state: AuthorizationState | AccountState, client: Client | None, browser: str, **context: Any
) -> HttpResponse:
    """Return the page that asks for consent to the terms; ``context``: ``errors`` by field, and ``status``."""
    return authorize_pages.of_message("accept_terms.html", state, client, browser, terms=terms.shown(), **context)


def _first(
    step: Step,
    waits: AuthorizationState | AccountState,
    client: Client | None,
    browser: str,
    *,
    email: str,
    name: str = "",
) -> HttpResponse:
    """Return the page of what comes first for an identity that opens nothing here yet."""
    if step is Step.ACCEPT_TERMS:
        return _terms(waits, client, browser)
    if step is Step.SIGN_UP_FIRST:
        return authorize_pages.sign_up(waits, client, browser, email=email, name=name)
    return authorize_pages.sign_in(waits, client, browser, email=email)


class UpstreamLogout(OAuthPage):
    """POST /oauth/upstream/<short name>/logout: a provider says that somebody has signed out there.

    OpenID Connect Back-Channel Logout 1.0 §2.5, §2.8.
    """

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest, slug: str) -> HttpResponse:
        """End what began in that session."""
        await providers.refresh()
        provider = providers.by_slug(slug)
        token = str(request.data.get("logout_token", ""))
        address = client_context.address_of(request)
        if provider is None or not token:
            await rate_limits.admit(rate_limits.EMAIL_TOKEN, address=address)
            return _told(HTTPStatus.BAD_REQUEST, "invalid_request")
        try:
            await services.signed_out_there(provider=provider, logout_token=token)
        except UpstreamRefused:
            await rate_limits.admit(rate_limits.EMAIL_TOKEN, address=address)
            return _told(HTTPStatus.BAD_REQUEST, "invalid_request")
        return _told(HTTPStatus.OK)


def _told(status: HTTPStatus, error: str = "") -> HttpResponse:
    response = JsonResponse({"error": error} if error else {}, status=status)
    response["Cache-Control"] = "no-store"
    return response


class IdentitiesView(AsyncAPIView):
    """GET, POST /api/v1/access/identities."""

    while_acting = frozenset({"GET"})
    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_identities_list",
        summary="List my identities at other providers",
        responses={200: IdentitiesOut, 400: TwoCredentials, 401: InvalidToken, 403: InsufficientScope},
    )
    async def get(self, request: ApiRequest) -> IdentitiesOut:
        """Return the caller's identities, the oldest first, and the providers of which they have none."""
        await providers.refresh()
        found = await database().read(identities_of, signed_in(request).id)
        taken = {one.provider.slug for one in found}
        others = (ProviderOut(slug, name) for slug, name in providers.buttons().items() if slug not in taken)
        return IdentitiesOut(found, tuple(others))

    @extend_schema(
        operation_id="access_identities_connect",
        summary="Connect an identity at another provider",
        request=ConnectInput,
        responses={
            200: ConnectOut,
            400: (ValidationFailed, TwoCredentials),
            401: StepUpRequired,
            403: CrossOrigin,
            404: NotFound,
            429: Throttled,
            503: UpstreamUnavailable,
        },
    )
    async def post(self, request: ApiRequest) -> Response:
        """Return where the browser goes; it comes back to the account's page. A recent proof is needed.

        The answer sets a cookie: the identity is connected in the same browser alone.
        """
        data = await self.validated(request, ConnectInput)
        who = signed_in(request)
        step_up.require_recent(who)
        await providers.refresh()
        provider = providers.by_slug(data["provider"])
        if provider is None:
            raise NotFound
        await rate_limits.admit(rate_limits.UPSTREAM, address=client_context.address_of(request))
        browser = authorization_state.browser_of(request) or authorization_state.new_browser()
        page = services.begun_in(session_id=who.session_id, epoch=who.epoch)
        url = await services.begin(provider=provider, page=page, browser=browser, life_s=LIFE_S, user_id=who.id)
        response = Response(ConnectOut(url))
        authorization_state.remember_browser(response, browser)
        return response


class IdentityView(AsyncAPIView):
    """DELETE /api/v1/access/identities/{id}."""

    permission_classes = [IsAuthenticated]

    @extend_schema(
        operation_id="access_identities_remove",
        summary="Remove one of my identities at other providers",
        request=None,
        responses={
            204: OpenApiResponse(None, "It signs the caller in no more."),
            400: TwoCredentials,
            401: StepUpRequired,
            403: CrossOrigin,
            404: NotFound,
            409: LastWayIn,
        },
    )
    async def delete(self, request: ApiRequest, identity_id: UUID) -> HttpResponse:
        """Take the identity away, unless it is the last way in. A recent proof is needed.

        The sessions that began with it end, but for the caller's.
        """
        who = signed_in(request)
        step_up.require_recent(who)
        await identities.unlink(user_id=who.id, identity_id=identity_id, session_id=who.session_id)
        return transport.no_content()


async def _client_of(state: AuthorizationState | AccountState) -> Client | None:
    """Return the client that a sign-in leads to; None on the way to a page of this site.

    Raises:
        Unanswerable: The client is gone.
    """
    if isinstance(state, AccountState):
        await key_store().signing()
        return None
    return await authorization_request.enabled_client(state.request.client_id)
