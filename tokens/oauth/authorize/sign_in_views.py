"""The forms that sign somebody in on the way to a client: password, second factor, passkey."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions

from accounts.errors import EmailNotVerified, InvalidCredentials, PasswordChangeRequired
from accounts.mfa.kept_devices import services as kept_devices
from accounts.mfa.passkeys.errors import InvalidPasskey
from accounts.pages import connected
from accounts.users.proofs import Evidence
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.errors import DomainError, Throttled
from ironauth.infrastructure.http import second_clicks
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.registry import Client
from tokens.errors import InvalidMfaToken, MfaRequired
from tokens.keys.store import key_store
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import responses, to_provider
from tokens.oauth.authorize import services as authorizations
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.inputs import EmailFormInput, PasswordFormInput
from tokens.oauth.authorize.services import Decision, Step
from tokens.oauth.authorize.state import HOME, AccountState, AuthorizationState, SignInState
from tokens.oauth.authorize.views import OAuthPage
from tokens.sessions import browser_sessions, sso_session, transport
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.outputs import TokenPair
from tokens.sign_in import factor_services, mfa_token, passkey_services, services
from tokens.sign_in.proofs import SignInProof
from tokens.upstream import providers

#: What a refusal asks for is a link away: the part of the template that has it.
_REMEDIES: Final[Mapping[type[DomainError], str]] = {EmailNotVerified: "verify", PasswordChangeRequired: "password"}
_OR_NOT_CONFIRMED: Final = _(
    "The e-mail address or the password is wrong, or the address is not confirmed yet: check both and try again."
)
_FACTOR: Final = "factor"  # what the first of two clicks has asked for, where it did not sign in


class SignInForm(OAuthPage):
    """What the forms share that end in a sign-in.

    ``once``: whether the form uses up what it signs in with: then the second click of two has nothing to show.
    """

    once: ClassVar[bool] = False

    async def signed_in(
        self,
        request: ApiRequest,
        proof: SignInProof,
        *,
        state: AuthorizationState | AccountState,
        client: Client | None,
        context: ClientContext,
        keeps_device: bool = False,
    ) -> HttpResponse:
        """Open this browser's session, and return what comes after a sign-in, with the cookies of it.

        On the way to a client it is the SSO session, and 1 query more where the browser brings a cookie. On the way to
        a page of this site it is a session of the API, by the cookie transport.
        """
        if client is None or isinstance(state, AccountState):
            response, session_id = await _to_account(proof, state, context)
            shown_there = state.upstream_id is not None
            ended = await to_provider.note(request, proof, session_id, state) if shown_there else None
            if ended is not None and response.headers["Location"] == HOME:
                told = connected.address(user_id=proof.user_id, provider=state.upstream, user_agents=ended)
                response.headers["Location"] = told
            if keeps_device:
                await _keep_device(response, proof, session_id, context)
            if self.once:
                await second_clicks.note(request, led_to=session_id)
            return response
        others = sso_session.read_others(request)
        opened, decision = await authorizations.sign_in(
            proof,
            state=state,
            client=client,
            cookie=sso_session.read_cookie(request),
            others=others,
            context=context,
        )
        if state.upstream_id is not None:
            await to_provider.note(request, proof, opened.session_id, state)
        if decision.step is Step.FINISHED and await second_clicks.first_of(request) is not None:
            assert opened.stored is not None
            decision = await authorizations.answer_again(state, client, opened.stored)
        elif decision.step is not Step.FINISHED and (self.once or state.request.pushed):
            await second_clicks.note(request, led_to=opened.session_id)
        response = self._gone_on(request, state, client, decision)
        sso_session.give_cookie(response, opened.refresh_token, max_age_s=settings.IRONAUTH_SSO_ABSOLUTE_S)
        if others or opened.others:
            browser_sessions.give_others(response, opened.others)
        transport.set_device(response, context)
        if keeps_device:
            await _keep_device(response, proof, opened.session_id, context)
        return response

    def _gone_on(
        self, request: ApiRequest, state: AuthorizationState, client: Client, decision: Decision
    ) -> HttpResponse:
        """Return what comes after a sign-in; signed in they are, whatever becomes of the rest."""
        known = msgspec.structs.replace(state, mfa_token="", methods=(), upstream_id=None, upstream="", keeps=False)
        try:
            return self.shown(request, known, client, authorizations.answer(state, decision))
        except DomainError as error:
            return self.handle_exception(error)

    async def led_on(
        self, request: ApiRequest, state: AuthorizationState | AccountState, client: Client | None
    ) -> HttpResponse | None:
        """Return where the same form has led just before, in the session that it opened; None where it has not.

        Nothing is proved or opened anew. The request is refused otherwise.
        """
        browser = authorization_state.browser_of(request)
        first = await second_clicks.first_of(request, "", _FACTOR) if browser else None
        if first is None or first.led_to is None:
            return None
        if first.word == _FACTOR:
            try:
                await services.ask_factor_again(user_id=first.led_to)
            except MfaRequired as needed:
                _, epoch = mfa_token.subject_of(str(needed.members["mfa_token"]))
                same = await second_clicks.first_of(request, f"{_FACTOR} {epoch}")  # else it counts no more
                return same and self.ask_second_factor(needed, state, client, browser, email=state.email)
            return None
        if client is None or isinstance(state, AccountState):
            mark, key = token_cache().mark(), await key_store().signing()
            opened = await services.opened_just_now(first.led_to)
            return _on_to_account(state, token_pair(opened, key, mark)) if opened is not None else None
        found = await authorizations.lead_on(first.led_to, state=state, client=client)
        if found is None:
            return None
        cookie, decision = found
        response = self._gone_on(request, state, client, decision)
        browser_sessions.give_opened(request, response, cookie, keeps=state.keeps)
        return response

    async def ask_second_factor_once(
        self, request: ApiRequest, needed: MfaRequired, state: SignInState, client: Client | None
    ) -> HttpResponse:
        """Return the page that asks for a second factor, where the first one is used up; see there."""
        user_id, epoch = mfa_token.subject_of(str(needed.members["mfa_token"]))
        await second_clicks.note(request, f"{_FACTOR} {epoch}")
        await second_clicks.note(request, _FACTOR, led_to=user_id)
        browser = authorization_state.browser_of(request)
        return self.ask_second_factor(needed, state, client, browser, email=state.email)

    async def resumed_by_link(
        self, request: ApiRequest
    ) -> tuple[AuthorizationState | AccountState, Client | None] | None:
        """Return what ``resumed_sign_in`` does, for the page of a link; None where that leads nowhere.

        It leads nowhere without a state, and where the document of its client may not be fetched just now: what the
        link is for is done all the same. Raises what ``resumed_sign_in`` raises, but ``Throttled``.
        """
        if "request" not in request.data:
            return None
        try:
            return await self.resumed_sign_in(request)
        except Throttled:
            return None

    async def signed_in_by_password(
        self,
        request: ApiRequest,
        email: str,
        password: str,
        state: AuthorizationState | AccountState,
        client: Client | None,
        **told: Any,
    ) -> HttpResponse:
        """Return what comes after a sign-in with the password that a link's page has asked for, a second factor too.

        Args:
            request: The request of that page.
            email: Whose password it is.
            password: As it was typed.
            state: What the page has carried.
            client: That it leads to.
            told: What the next page says has been done by the link.
        """
        browser = authorization_state.browser_of(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        try:
            proof = await services.verify_password(email=email, password=password, context=_judged(context, state))
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except MfaRequired as needed:
            return self.ask_second_factor(needed, state, client, browser, email=email, **told)
        except DomainError as error:  # what the link was for is done
            return authorize_pages.sign_in(state, client, browser, email=email, **told, **refusal_of(error))

    @staticmethod
    def ask_second_factor(
        needed: MfaRequired, state: SignInState, client: Client | None, browser: str, *, email: str = "", **context: Any
    ) -> HttpResponse:
        """Return the page that asks for a second factor.

        Args:
            needed: What asks for it.
            state: Of the page before; a code that was mailed for it is done with.
            client: That it leads to.
            browser: What the browser's cookie says.
            email: Whose page it is, the address with which the first factor was right; "" where none was typed.
            context: What else the page says.
        """
        members: Any = needed.members
        first = {"mfa_token": members["mfa_token"], "methods": members["methods"]}
        asked = msgspec.structs.replace(state, **first, email=email, code_id=None)
        return authorize_pages.second_factor(asked, client, browser, **context)


class PasswordForm(SignInForm):
    """POST /oauth/signin."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Sign in by address and password, or say what is missing or wrong on the same page; without any, show it.

        The first of two pages sends an address without a password (IRONAUTH_SIGN_IN_FORM).
        """
        state, client = await self.resumed_sign_in(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        browser, email = authorization_state.browser_of(request), str(request.data.get("email", ""))
        if "email" not in request.data:  # from another page, back to this one
            begun = msgspec.structs.replace(state, mfa_token="", methods=(), email="", code_id=None)
            if "other" in request.data:
                begun = _without_hint(begun)
            return authorize_pages.sign_in(begun, client, browser)
        if settings.IRONAUTH_SIGN_IN_FORM == "identifier_first" and "password" not in request.data:
            return await self._identified(request, state, client)
        try:
            data = await self.validated(request, PasswordFormInput)
            proof = await services.verify_password(**data, context=_judged(context, state))
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except MfaRequired as needed:
            return self.ask_second_factor(needed, state, client, browser, email=email)
        except exceptions.ValidationError:
            missing = _("Type your e-mail address and your password.")
            return authorize_pages.sign_in(state, client, browser, email=email, problem=missing, status=400)
        except DomainError as error:
            return authorize_pages.sign_in(state, client, browser, email=email, **refusal_of(error))

    async def _identified(
        self, request: ApiRequest, state: AuthorizationState | AccountState, client: Client | None
    ) -> HttpResponse:
        """Return what comes after an address: the page that asks for its password, or its domain's provider.

        The text of the address decides. No account is looked up, so there is nothing that page or time could tell.
        """
        browser = authorization_state.browser_of(request)
        try:
            email = (await self.validated(request, EmailFormInput))["email"]
        except exceptions.ValidationError:
            # Without the hint: with it the page would ask for the password of another address than was typed.
            typed = str(request.data["email"])
            missing: dict[str, Any] = {"problem": _("Type your e-mail address."), "status": 400, "typed": typed}
            return authorize_pages.sign_in(_without_hint(state), client, browser, **missing)
        provider = providers.of_address(email)
        if provider is not None and state.upstream_id is None:  # else they are here to connect an account of this site
            return await self.sent_on(request, state, client, provider, email)
        return authorize_pages.sign_in(state, client, browser, email=email)


class SecondFactorForm(SignInForm):
    """POST /oauth/signin/code."""

    once = True

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Finish a sign-in with a code or a passkey, or say what is wrong on the same page; or show the other field.

        Once the password is too long ago it begins again.
        """
        state, client = await self.resumed_sign_in(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        browser = authorization_state.browser_of(request)
        recovery = "recovery" in request.data
        if (recovery or "app" in request.data) and "code" not in request.data and state.mfa_token:
            return authorize_pages.second_factor(state, client, browser, recovery=recovery)
        try:
            proof = await factor_services.verify_second_factor(
                token=state.mfa_token, shown=_shown(request), context=context
            )
            keeps = "keep_device" in request.data and bool(settings.IRONAUTH_KEEP_DEVICE_DAYS)
            response = await self.signed_in(
                request, proof, state=state, client=client, context=context, keeps_device=keeps
            )
        except InvalidMfaToken:
            led = await self.led_on(request, state, client)
            if led is not None:
                return led
            again = msgspec.structs.replace(state, mfa_token="", methods=())
            late = _("That took too long: sign in with your password again.")
            return authorize_pages.sign_in(again, client, browser, problem=late, status=401)
        except DomainError as error:
            return authorize_pages.second_factor(state, client, browser, recovery=recovery, **refusal_of(error))
        return response


class PasskeyForm(SignInForm):
    """POST /oauth/signin/passkey."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Sign in by passkey instead of a password, or say what is wrong on the same page."""
        state, client = await self.resumed_sign_in(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        shown = _shown(request)
        try:
            if shown.challenge_token is None or shown.credential is None:
                raise InvalidPasskey
            proof = await passkey_services.verify_passkey(
                challenge_token=shown.challenge_token, credential=shown.credential, context=context
            )
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except DomainError as error:
            browser, email = authorization_state.browser_of(request), str(request.data.get("email", ""))
            return authorize_pages.sign_in(state, client, browser, email=email, **refusal_of(error))


def _judged(context: ClientContext, state: SignInState) -> ClientContext:
    """Return what a password is judged with: where a kept device may not stand in for the second factor, without it.

    Not where an identity is linked by the sign-in, and not for a client that wants the person to prove it now.

    Args:
        context: Where the request comes from.
        state: Where the sign-in leads.
    """
    wanted = isinstance(state, AuthorizationState) and state.request.wants_second_factor
    return context._replace(kept_device="") if wanted or state.upstream_id is not None else context


async def _keep_device(response: HttpResponse, proof: SignInProof, session_id: UUID, context: ClientContext) -> None:
    """Keep the browser as a device, where its session still lives."""
    device_id = await kept_devices.keep(response, user_id=proof.user_id, epoch=proof.session_epoch, context=context)
    if device_id is not None:
        await services.keep_device(session_id=session_id, device_id=device_id)


def _without_hint(state: AuthorizationState | AccountState) -> AuthorizationState | AccountState:
    """Return the state of somebody else than the client expects."""
    if isinstance(state, AccountState):
        return state
    return msgspec.structs.replace(state, request=msgspec.structs.replace(state.request, login_hint=""))


async def _to_account(proof: SignInProof, state: SignInState, context: ClientContext) -> tuple[HttpResponse, UUID]:
    """Return the redirect to the page somebody has signed in for, with the cookies of their session, and its id."""
    mark = token_cache().mark()
    key = await key_store().signing()
    opened = await services.open_session(proof, context=context)
    response = _on_to_account(state, token_pair(opened, key, mark))
    transport.set_device(response, context)
    return response, opened.session_id


def _on_to_account(state: SignInState, pair: TokenPair) -> HttpResponse:
    response = responses.on_to_account(state.next if isinstance(state, AccountState) else "/")
    transport.set_cookies(response, pair)
    return response


def _shown(request: ApiRequest) -> Evidence:
    """Return what was sent to prove a second factor; an answer that is no JSON object was not sent."""
    data = request.data
    try:
        credential = strict_json.loads(str(data.get("credential", "")))
    except strict_json.InvalidJson:
        credential = None
    if not isinstance(credential, dict):
        credential = None
    return Evidence(
        code=data.get("code") or None, challenge_token=data.get("challenge_token") or None, credential=credential
    )


def refusal_of(error: DomainError) -> dict[str, Any]:
    """Return what a page says of a refusal, with its status and headers."""
    remedy = next((name for kind, name in _REMEDIES.items() if isinstance(error, kind)), "")
    detail = " ".join(gettext(reason.message) for reason in error.errors) or error.detail
    if detail == InvalidCredentials.detail_where_proof_is_required:  # the page itself says the rest, with its link
        detail = _OR_NOT_CONFIRMED
    return {"problem": detail, "status": error.status, "headers": error.headers, "remedy": remedy}
