"""A new password on the way of a sign-in: asked for on its page, chosen by the link of a message, and it goes on.

In the browser that asked, the sign-in ends where it was to end. A link in any other browser sets the password alone:
its page says where to go on. Signing in there would bring an answer to a client that has asked in another browser.
"""

from typing import Any
from urllib.parse import urlsplit

import msgspec
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions

from accounts.email import services as email_services
from accounts.errors import InvalidEmailToken
from accounts.outbox.tokens import FoundToken
from accounts.pages import meter
from accounts.users.inputs import ResetPasswordInput
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from tokens.clients.registry import Client
from tokens.errors import MfaRequired
from tokens.oauth.authorize import mailed_pages
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.inputs import EmailFormInput
from tokens.oauth.authorize.mailed_pages import Waiting
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.authorize.sign_in_views import SignInForm, refusal_of
from tokens.oauth.authorize.state import AccountState, AuthorizationState, CodeFor
from tokens.sessions import transport
from tokens.sign_in import services
from tokens.upstream import providers


class ForgotForm(SignInForm):
    """POST /oauth/forgot."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Have the message sent, the same whether or not anybody has the address; without `send`, ask for it."""
        state, client = await self.resumed_sign_in(request)
        browser, email = authorization_state.browser_of(request), str(request.data.get("email", ""))
        if "send" not in request.data:
            return authorize_pages.of_message("ask_reset.html", state, client, browser, email=email)
        try:
            data = await self.validated(request, EmailFormInput)
            token_id = await email_services.request_password_reset(
                email=data["email"], address=client_context.address_of(request), page=mailed_pages.RESET
            )
        except exceptions.ValidationError as error:
            detail: Any = error.detail
            errors = {"email": [str(reason) for reason in detail.get("email", ())]}
            return authorize_pages.of_message(
                "ask_reset.html", state, client, browser, email=email, errors=errors, status=400
            )
        except DomainError as error:
            return authorize_pages.of_message(
                "ask_reset.html", state, client, browser, email=email, **refusal_of(error)
            )
        waits = msgspec.structs.replace(
            state, mfa_token="", methods=(), email=data["email"], code_id=token_id, code_for=CodeFor.RESET
        )
        await database().write(mailed_pages.keep, waits, browser)
        return authorize_pages.of_message("ask_reset.html", waits, client, browser, sent=True)


class ResetPage(SignInForm):
    """GET, POST /oauth/reset."""

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
            return _elsewhere(None, stale=True, status=error.status)
        waiting = await database().read(mailed_pages.find, found.id, authorization_state.browser_of(request))
        if meter.FIELD in request.data:
            judged = await meter.shown(password=password, email=found.email, address=client_context.address_of(request))
            return await _asking(request, waiting, token=token, **judged)
        begun = None
        if "request" in request.data:
            begun = await self.resumed_sign_in(request)
        try:
            data = await self.validated(request, ResetPasswordInput)
            await email_services.reset_password(**data, address=client_context.address_of(request))
        except InvalidEmailToken as error:  # another request was faster
            return _elsewhere(None, stale=True, status=error.status)
        except (exceptions.ValidationError, DomainError) as error:
            return await _asking(request, waiting, token=token, **_refused(error))
        if begun is None or waiting is None or not waiting.is_here or begun[0].code_id != found.id:
            return await _done_elsewhere(waiting)
        return await self._signed_in(request, found, password, *begun)

    async def _signed_in(
        self,
        request: ApiRequest,
        found: FoundToken,
        password: str,
        state: AuthorizationState | AccountState,
        client: Client | None,
    ) -> HttpResponse:
        """Return what comes after a sign-in with the new password, a second factor included."""
        browser = authorization_state.browser_of(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        try:
            proof = await services.verify_password(email=found.email, password=password, context=context)
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except MfaRequired as needed:
            return self.ask_second_factor(needed, state, client, browser, email=found.email, password_set=True)
        except DomainError as error:  # the password is set
            refused = refusal_of(error)
            return authorize_pages.sign_in(state, client, browser, email=found.email, password_set=True, **refused)


async def _asking(request: ApiRequest, waiting: Waiting | None, **context: Any) -> HttpResponse:
    """Return the page that asks for the password: with the way on in the browser that asked, else without."""
    await providers.refresh()
    client = await _client_of(waiting)
    if waiting is None or not waiting.is_here or (client is None and isinstance(waiting.state, AuthorizationState)):
        return _elsewhere(client, **context)
    more = {"shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH, **context}
    return authorize_pages.of_message(
        "reset.html", waiting.state, client, authorization_state.browser_of(request), **more
    )


async def _done_elsewhere(waiting: Waiting | None) -> HttpResponse:
    """Return what is said where nobody was signed in: that it is done, and where to go on.

    The address is where the client lives, of what staff have registered for it: its pages begin a sign-in of their own.
    """
    client, address = await _client_of(waiting), ""
    if waiting is not None and client is not None and isinstance(waiting.state, AuthorizationState):
        parts = urlsplit(waiting.state.request.redirect_uri)
        address = f"https://{parts.netloc}/" if parts.scheme == "https" else ""
    return _elsewhere(client, done=True, address=address)


def _elsewhere(client: Client | None, **context: Any) -> HttpResponse:
    """Return the page of a link in another browser: where it asks, where it is ``done``, or ``stale``."""
    more = {"client": client, "shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH, **context}
    return authorize_pages.of_message_elsewhere("reset.html", **more)


async def _client_of(waiting: Waiting | None) -> Client | None:
    """Return the client that a page leads to; None for a page of this site, and where it is gone."""
    if waiting is None or not isinstance(waiting.state, AuthorizationState):
        return None
    try:
        return await authorization_request.enabled_client(waiting.state.request.client_id)
    except Unanswerable:
        return None


def _refused(error: exceptions.ValidationError | DomainError) -> dict[str, Any]:
    """Return what the page says of a password that was not set."""
    if isinstance(error, exceptions.ValidationError):
        detail: Any = error.detail
        return {"reasons": [str(reason) for reasons in detail.values() for reason in reasons], "status": 400}
    reasons = [error.detail]
    if isinstance(error, ValidationFailed):
        reasons = [reason.message for reason in error.errors]
    return {"reasons": reasons, "status": error.status, "headers": error.headers}
