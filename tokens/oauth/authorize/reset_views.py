"""A new password on the way of a sign-in: asked for on its page, chosen by the link of a message, and it goes on.

In the browser that asked, the sign-in ends where it was to end. A link in any other browser sets the password alone:
its page says where to go on. Signing in there would bring an answer to a client that has asked in another browser.
"""

from typing import Any, ClassVar, Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions

from accounts.email import services as email_services
from accounts.errors import InvalidEmailToken
from accounts.outbox import tokens as email_tokens
from accounts.pages import meter
from accounts.users.inputs import ResetPasswordInput
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context, second_clicks
from tokens.clients.registry import Client
from tokens.oauth.authorize import mailed_pages
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.inputs import EmailFormInput
from tokens.oauth.authorize.mailed_pages import Waiting
from tokens.oauth.authorize.sign_in_views import SignInForm, refusal_of
from tokens.oauth.authorize.state import AccountState, AuthorizationState, CodeFor
from tokens.upstream import providers

_SET: Final = "set"  # what the first of two clicks has done


class AskMessageForm(SignInForm):
    """A form that asks for a message whose link goes on with the sign-in."""

    code_for: ClassVar[CodeFor]

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Have the message sent, the same whether or not anybody has the address; without `send`, ask for it."""
        state, client = await self.resumed_sign_in(request)
        browser, email = authorization_state.browser_of(request), str(request.data.get("email", ""))
        if "send" not in request.data:
            return self._page(state, client, browser, email=email)
        try:
            data = await self.validated(request, EmailFormInput)
            token_id = await self.ask(email=data["email"], address=client_context.address_of(request))
        except exceptions.ValidationError as error:
            detail: Any = error.detail
            errors = {"email": [str(reason) for reason in detail.get("email", ())]}
            return self._page(state, client, browser, email=email, errors=errors, status=400)
        except DomainError as error:
            return self._page(state, client, browser, email=email, **refusal_of(error))
        waits = msgspec.structs.replace(
            state, mfa_token="", methods=(), email=data["email"], code_id=token_id, code_for=self.code_for
        )
        await database().write(mailed_pages.keep, waits, browser)
        return self._page(waits, client, browser, sent=True, email=data["email"])

    def _page(
        self, state: AuthorizationState | AccountState, client: Client | None, browser: str, **context: Any
    ) -> HttpResponse:
        resets = self.code_for is CodeFor.RESET
        return authorize_pages.of_message("ask_message.html", state, client, browser, resets=resets, **context)

    async def ask(self, *, email: str, address: str) -> UUID:
        """Call the service, and return the id of the message's token. Raises ``Throttled``."""
        raise NotImplementedError


class ForgotForm(AskMessageForm):
    """POST /oauth/forgot."""

    code_for = CodeFor.RESET

    async def ask(self, *, email: str, address: str) -> UUID:
        """Have a message sent in whose page one chooses a new password."""
        return await email_services.request_password_reset(email=email, address=address, page=mailed_pages.RESET)


class VerifyAgainForm(AskMessageForm):
    """POST /oauth/verify-again."""

    code_for = CodeFor.VERIFY

    async def ask(self, *, email: str, address: str) -> UUID:
        """Have another message sent that confirms an address."""
        return await email_services.resend_verification(email=email, address=address, page=mailed_pages.VERIFY)


class ResetPage(SignInForm):
    """GET, POST /oauth/reset."""

    once = True

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Ask for the new password; a link of no use is refused before anybody types one."""
        token = request.query_params.get("token", "")
        try:
            found = await email_services.reset_by(token=token, address=client_context.address_of(request))
        except InvalidEmailToken as error:
            return _elsewhere(None, stale=True, status=error.status)
        waiting = await database().read(mailed_pages.find, found.id, authorization_state.browser_of(request))
        return await _asking(request, waiting, token=token)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Set the password. In the browser that asked, sign in with it and go on.

        The token in the form is what allows it: without a state of this browser no cookie counts.
        """
        token, password = str(request.data.get("token", "")), str(request.data.get("new_password", ""))
        try:
            found = await email_services.reset_by(token=token, address=client_context.address_of(request))
        except InvalidEmailToken as error:
            return await self._used(request, error)
        waiting = await database().read(mailed_pages.find, found.id, authorization_state.browser_of(request))
        if meter.FIELD in request.data:
            judged = await meter.shown(password=password, email=found.email, address=client_context.address_of(request))
            return await _asking(request, waiting, token=token, **judged)
        begun = await self.resumed_by_link(request)
        try:
            data = await self.validated(request, ResetPasswordInput)
            await email_services.reset_password(**data, address=client_context.address_of(request))
        except InvalidEmailToken as error:  # another request was faster
            return await self._used(request, error)
        except (exceptions.ValidationError, DomainError) as error:
            return await _asking(request, waiting, token=token, **_refused(error))
        await second_clicks.note(request, _SET)
        if begun is None or waiting is None or not waiting.is_here or begun[0].code_id != found.id:
            return await _done_elsewhere(waiting)
        return await self.signed_in_by_password(request, found.email, password, *begun, password_set=True)

    async def _used(self, request: ApiRequest, error: InvalidEmailToken) -> HttpResponse:
        """Say that the link is of no use; the second of two clicks leads on, as the password is set."""
        named = email_tokens.named(str(request.data.get("token", "")))
        if named is None or await second_clicks.first_of(request, _SET) is None:
            return _elsewhere(None, stale=True, status=error.status)
        waiting = await database().read(mailed_pages.find, named, authorization_state.browser_of(request))
        begun = await self.resumed_by_link(request)
        if begun is None or waiting is None or not waiting.is_here or begun[0].code_id != named:
            return await _done_elsewhere(waiting)
        led = await self.led_on(request, *begun)
        if led is not None:
            return led
        password = str(request.data.get("new_password", ""))
        return await self.signed_in_by_password(request, waiting.state.email, password, *begun, password_set=True)


async def _asking(request: ApiRequest, waiting: Waiting | None, **context: Any) -> HttpResponse:
    """Return the page that asks for the password: with the way on in the browser that asked, else without."""
    await providers.refresh()
    client = await mailed_pages.client_of(waiting)
    if not mailed_pages.is_here(waiting, client):
        return _elsewhere(client, **context)
    more = {"shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH, **context}
    return authorize_pages.of_message(
        "reset.html", waiting.state, client, authorization_state.browser_of(request), **more
    )


async def _done_elsewhere(waiting: Waiting | None) -> HttpResponse:
    """Return what is said where nobody was signed in: that it is done, and where to go on."""
    client = await mailed_pages.client_of(waiting)
    return _elsewhere(client, done=True, address=mailed_pages.address_of(waiting, client))


def _elsewhere(client: Client | None, **context: Any) -> HttpResponse:
    """Return the page of a link in another browser: where it asks, where it is ``done``, or ``stale``."""
    more = {"client": client, "shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH, **context}
    return authorize_pages.of_message_elsewhere("reset.html", **more)


def _refused(error: exceptions.ValidationError | DomainError) -> dict[str, Any]:
    """Return what the page says of a password that was not set."""
    if isinstance(error, exceptions.ValidationError):
        detail: Any = error.detail
        return {"reasons": [str(reason) for reasons in detail.values() for reason in reasons], "status": 400}
    reasons = [error.detail]
    if isinstance(error, ValidationFailed):
        reasons = [reason.message for reason in error.errors]
    return {"reasons": reasons, "status": error.status, "headers": error.headers}
