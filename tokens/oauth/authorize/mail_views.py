"""The pages that links in messages open on the way of a sign-in.

GET changes nothing: mail scanners fetch every link.
"""

from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema

from accounts.email import codes
from accounts.email import services as email_services
from accounts.errors import InvalidEmailCode, InvalidEmailToken
from accounts.outbox import tokens as email_tokens
from accounts.outbox.tokens import FoundToken
from accounts.pages.email import VerifyPage
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from tokens.clients.registry import Client
from tokens.errors import MfaRequired
from tokens.oauth.authorize import mailed_pages, responses
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.mailed_pages import Waiting
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.authorize.sign_in_views import SignInForm, refusal_of
from tokens.oauth.authorize.state import AccountState, AuthorizationState
from tokens.oauth.authorize.views import EXPIRED, OAuthPage
from tokens.sessions import transport
from tokens.sign_in import services
from tokens.upstream import providers

USED_UP = _("The link no longer works: it was used, or is too old. Ask for a new message.")
USED_BEFORE = _("The link was used before, or is too old. If you have confirmed your address, sign in.")


class SignInLink(SignInForm):
    """GET, POST /oauth/signin/link."""

    once = True

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the button that signs in, in the browser that asked; elsewhere, where the code is typed."""
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise NotFound
        token, browser = request.query_params.get("token", ""), authorization_state.browser_of(request)
        try:
            found = await codes.opened_link(token=token, address=client_context.address_of(request))
        except InvalidEmailToken as error:
            return authorize_pages.error(detail=error.detail, status=error.status, signs_in=True)
        waiting = await database().read(mailed_pages.find, found.id, browser)
        if waiting is None or not waiting.is_here:
            return authorize_pages.of_message_elsewhere("email_link_elsewhere.html")
        await providers.refresh()
        client = None
        if isinstance(waiting.state, AuthorizationState):
            client = await authorization_request.enabled_client(waiting.state.request.client_id)
        return authorize_pages.of_message("email_link.html", waiting.state, client, browser, token=token)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Sign in whose message it was, and go on."""
        state, client = await self.resumed_sign_in(request)
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise NotFound
        if state.code_id is None:
            raise Unanswerable(EXPIRED)
        browser = authorization_state.browser_of(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        try:
            proof = await services.verify_email_link(
                code_id=state.code_id, token=str(request.data.get("token", "")), address=context.address
            )
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except MfaRequired as needed:
            return await self.ask_second_factor_once(request, needed, state, client)
        except (InvalidEmailToken, InvalidEmailCode) as error:
            led = await self.led_on(request, state, client)
            if led is not None:
                return led
            return authorize_pages.ask_email_code(
                state, client, browser, email=state.email, problem=USED_UP, status=error.status
            )
        except DomainError as error:
            return authorize_pages.sign_in(state, client, browser, email=state.email, **refusal_of(error))


class ContinueLink(OAuthPage):
    """GET /oauth/continue: where the message leads that tells of an account that is there already."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the page that signs in, in the browser that asked; elsewhere that of one's own account.

        The link opens nothing, and what it names is not secret: who has it types a password.
        """
        named = email_tokens.named(request.query_params.get("token", ""))
        browser = authorization_state.browser_of(request)
        waiting = await database().read(mailed_pages.find, named, browser) if named is not None else None
        await providers.refresh()
        client = await mailed_pages.client_of(waiting)
        if not mailed_pages.is_here(waiting, client):
            return responses.on_to_account(reverse("email-pages:signin-page"))
        state = msgspec.structs.replace(waiting.state, code_id=None)
        return authorize_pages.sign_in(state, client, browser, email=state.email)


class VerifyLink(VerifyPage, SignInForm):
    """GET, POST /oauth/verify: the page that confirms an address, on the way of a sign-up.

    In the browser that asked for the message, who has typed the password is signed in with it and goes on. In any other
    one the address is confirmed, and the page says where to go on.
    """

    once = True
    waiting: Waiting | None = None
    client: Client | None = None

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the form; nothing changes."""
        await self._find(request.query_params.get("token", ""))
        return await super().get(request)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Confirm the address. In the browser that asked, sign in and go on.

        The token in the form is what allows it: without a state of this browser no cookie counts.
        """
        found = await self._find(str(request.data.get("token", "")))
        begun = await self.resumed_by_link(request)
        page = await super().post(request)
        if begun is None or not self.done or self.done == "disowned":
            return page
        waiting, named = self.waiting, email_tokens.named(str(request.data.get("token", "")))
        if begun[0].code_id != named or not mailed_pages.is_here(waiting, self.client):
            return page
        if self.is_second and (led := await self.led_on(request, *begun)) is not None:
            return led
        return await self._signs_in(request, found.email if found is not None else waiting.state.email, *begun)

    async def _signs_in(
        self, request: ApiRequest, email: str, state: AuthorizationState | AccountState, client: Client | None
    ) -> HttpResponse:
        """Sign in with what the link was confirmed with, and go on."""
        field = "new_password" if self.done == "started_clean" else "password"
        password, browser = str(request.data.get(field, "")), authorization_state.browser_of(request)
        if not password:  # it was confirmed before
            return authorize_pages.sign_in(state, client, browser, email=email, address_confirmed=True)
        if self.confirmed is None:
            return await self.signed_in_by_password(request, email, password, state, client, address_confirmed=True)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        try:
            proof = await services.verify_confirmation(self.confirmed)
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except DomainError as error:  # the address is confirmed
            told = {"address_confirmed": True, **refusal_of(error)}
            return authorize_pages.sign_in(state, client, browser, email=email, **told)

    async def _find(self, token: str) -> FoundToken | None:
        """Return whose token it is, and keep the page that waits for it.

        One that was used is gone; the page is found by its name then, in the browser that has asked alone.
        """
        found = await email_services.verification_of(token=token)
        named = found.id if found is not None else email_tokens.named(token)
        if named is not None:
            browser = authorization_state.browser_of(self.request)
            self.waiting = await database().read(mailed_pages.find, named, browser)
            await providers.refresh()
            self.client = await mailed_pages.client_of(self.waiting)
        return found

    def _failed(self, error: DomainError, **context: Any) -> HttpResponse:
        """Say what went wrong; in the browser that asked, a link that was used before leads on to the sign-in."""
        waiting, client = self.waiting, self.client
        if not isinstance(error, self.invalid) or not mailed_pages.is_here(waiting, client):
            return super()._failed(error, **context)
        browser = authorization_state.browser_of(self.request)
        told = {"problem": USED_BEFORE, "remedy": "verify", "status": error.status, "headers": error.headers}
        return authorize_pages.sign_in(waiting.state, client, browser, email=waiting.state.email, **told)

    def _page(self, *, status: int = 200, **context: Any) -> HttpResponse:
        waiting, client = self.waiting, self.client
        if mailed_pages.is_here(waiting, client) and "done" not in context:
            browser = authorization_state.browser_of(self.request)
            return authorize_pages.of_message("verify.html", waiting.state, client, browser, status=status, **context)
        address = mailed_pages.address_of(waiting, client)
        return authorize_pages.of_message_elsewhere(
            "verify.html", client=client, address=address, status=status, **context
        )
