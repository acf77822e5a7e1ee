"""The forms that make an account, and those that sign in with a code that is mailed."""

from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions

from accounts import email_address as emails
from accounts.email import codes
from accounts.errors import EmailTaken, InvalidEmailCode, SignUpClosed
from accounts.own_account import services as own_account
from accounts.pages import meter
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, NotFound, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context, second_clicks
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.registry import Client
from tokens.errors import MfaRequired
from tokens.oauth.authorize import mailed_pages
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.inputs import CodeFormInput, EmailFormInput, SignUpFormInput
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.authorize.sign_in_views import SignInForm, refusal_of
from tokens.oauth.authorize.state import HOME, AccountState, AuthorizationState, CodeFor
from tokens.oauth.authorize.views import EXPIRED, OAuthPage
from tokens.sessions import transport
from tokens.sign_in import services
from tokens.sign_in.proofs import ByPassword, SignInProof
from tokens.upstream import providers

_MAILED: Final = "mailed"  # what the first of two clicks does, where it signs nobody in


class AccountEntrance(OAuthPage):
    """GET /account/signin and /account/signup; ``next`` is a path of this site to go on to."""

    signs_up = False

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the page."""
        await providers.refresh()
        state = authorization_state.begin_account(destination(request.query_params.get("next", "")))
        if self.signs_up and settings.IRONAUTH_SIGN_UP != "open":
            raise SignUpClosed
        provider = providers.wanted(request.query_params.get("provider", ""), "")
        if provider is not None:
            return await self.sent_on(request, state, None, provider)
        page = authorize_pages.sign_up if self.signs_up else authorize_pages.sign_in
        return self.first_shown(request, state, None, page)


class SignUpForm(SignInForm):
    """POST /oauth/signup.

    The second of two clicks gets the page that the first one got, also while that one is under way.
    """

    once = True

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Make an account and sign in, or ask for the code that proves the address; without fields, show the page."""
        state, client = await self.resumed_sign_in(request)
        browser = authorization_state.browser_of(request)
        if settings.IRONAUTH_SIGN_UP != "open":
            raise SignUpClosed
        if "email" not in request.data:
            return authorize_pages.sign_up(state, client, browser)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        typed = {name: str(request.data.get(name, "")) for name in ("email", "name")}
        typed["accepted"] = str(request.data.get("terms_version", ""))
        if meter.FIELD in request.data:
            who = {"email": typed["email"], "name": typed["name"], "address": context.address}
            found = await meter.shown(password=str(request.data.get("password", "")), **who)
            return authorize_pages.sign_up(state, client, browser, **typed, **found)
        try:
            data = await self.validated(request, SignUpFormInput)
            waits, user_id = await _made(request, state, data, context.address)
        except (exceptions.ValidationError, DomainError) as error:
            led = await self.led_on(request, state, client) if isinstance(error, EmailTaken) else None
            return led or authorize_pages.sign_up(state, client, browser, **typed, **_marked(error))
        if user_id is None:
            return authorize_pages.email_code(waits, client, browser)
        try:
            proof = await services.verify_sign_up(user_id=user_id)
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except DomainError as error:  # the account is there
            return authorize_pages.sign_in(state, client, browser, email=typed["email"], **refusal_of(error))


class AskCodeForm(SignInForm):
    """POST /oauth/signin/email. The second of two clicks has no other code sent, which would end the first one."""

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Send a code, and show where it is typed; without an address, show where that is."""
        state, client = await self.resumed_sign_in(request)
        browser = authorization_state.browser_of(request)
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise NotFound
        email = str(request.data.get("email", ""))
        if not email:
            return authorize_pages.ask_email_code(state, client, browser)
        try:
            data = await self.validated(request, EmailFormInput)
            waits = await _asked(request, state, data["email"])
        except exceptions.ValidationError as error:
            errors = _by_field(error.detail)
            return authorize_pages.ask_email_code(state, client, browser, email=email, errors=errors, status=400)
        except DomainError as error:
            return authorize_pages.ask_email_code(state, client, browser, email=email, **refusal_of(error))
        return authorize_pages.email_code(waits, client, browser)


class CodeForm(SignInForm):
    """POST /oauth/code."""

    once = True

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Sign in with the code that was mailed, or say what is wrong on the same page; or send another one."""
        state, client = await self.resumed_sign_in(request)
        browser = authorization_state.browser_of(request)
        context = transport.context_of_sign_in(request._request, "cookie")  # noqa: SLF001 - Django's request
        if state.code_id is None or state.code_for in (CodeFor.RESET, CodeFor.VERIFY):
            raise Unanswerable(EXPIRED)
        try:
            if "again" in request.data:
                return await self._again(state, client, browser, context)
            data = await self.validated(request, CodeFormInput)
            proof = await _judged(state, data["code"], context)
            return await self.signed_in(request, proof, state=state, client=client, context=context)
        except MfaRequired as needed:
            return await self.ask_second_factor_once(request, needed, state, client)
        except exceptions.ValidationError:
            missing = _("Type the six digits from the message.")
            return authorize_pages.email_code(state, client, browser, problem=missing, status=400)
        except DomainError as error:
            led = await self.led_on(request, state, client) if isinstance(error, InvalidEmailCode) else None
            return led or authorize_pages.email_code(state, client, browser, **refusal_of(error))

    @staticmethod
    async def _again(
        state: AuthorizationState | AccountState, client: Client | None, browser: str, context: ClientContext
    ) -> HttpResponse:
        if state.code_for is CodeFor.SIGN_UP:
            address, page = context.address, mailed_pages.VERIFY
            code_id = await codes.repeat_sign_up_code(
                sign_up=state.sign_up, email=state.email, address=address, page=page
            )
        else:
            address, page = context.address, mailed_pages.SIGN_IN
            code_id = await codes.request_sign_in_code(email=state.email, address=address, page=page)
        waits = msgspec.structs.replace(state, code_id=code_id)
        await database().write(mailed_pages.keep, waits, browser)
        return authorize_pages.email_code(waits, client, browser, sent_again=True)


async def _made(
    request: ApiRequest, state: AuthorizationState | AccountState, data: dict[str, str], address: str
) -> tuple[AuthorizationState | AccountState, UUID | None]:
    """Make an account. Return its id, or None and the state of the page that asks for the code of its message.

    Raises what ``own_account.sign_up`` raises.
    """
    leads = {"page": mailed_pages.VERIFY, "page_if_taken": mailed_pages.CONTINUE}
    sign_up = partial(own_account.sign_up, **data, address=address, with_code=True, **leads)
    if not emails.is_proof_required():
        user = (await sign_up()).user
        assert user is not None
        return state, user.id
    asks = msgspec.structs.replace(state, email=data["email"], code_for=CodeFor.SIGN_UP)
    browser = authorization_state.browser_of(request)
    mailed: list[AuthorizationState | AccountState] = []

    async def mail() -> UUID:
        done = await sign_up()
        assert done.code_id is not None
        mailed.append(msgspec.structs.replace(asks, code_id=done.code_id, sign_up=done.sign_up))
        await database().write(mailed_pages.keep, mailed[0], browser)
        return done.code_id

    code_id = await second_clicks.led_once(request, _MAILED, mail)
    if mailed and mailed[0].code_id == code_id:
        return mailed[0], None
    of_first = await codes.sign_up_of(code_id=code_id, email=data["email"])
    return msgspec.structs.replace(asks, code_id=code_id, sign_up=of_first), None


async def _asked(
    request: ApiRequest, state: AuthorizationState | AccountState, email: str
) -> AuthorizationState | AccountState:
    """Have a code sent, once for two clicks; return the state of the page that asks for it.

    Raises what ``codes.request_sign_in_code`` raises.
    """
    asks = msgspec.structs.replace(state, email=email, code_for=CodeFor.SIGN_IN)
    address, browser = client_context.address_of(request), authorization_state.browser_of(request)

    async def mail() -> UUID:
        code_id = await codes.request_sign_in_code(email=email, address=address, page=mailed_pages.SIGN_IN)
        await database().write(mailed_pages.keep, msgspec.structs.replace(asks, code_id=code_id), browser)
        return code_id

    code_id = await second_clicks.led_once(request, _MAILED, mail)
    return msgspec.structs.replace(asks, code_id=code_id)


async def _judged(state: AuthorizationState | AccountState, code: str, context: ClientContext) -> SignInProof:
    """Return the proof of a right code."""
    assert state.code_id is not None
    if state.code_for is CodeFor.SIGN_IN:
        if not settings.IRONAUTH_SIGN_IN_BY_EMAIL:
            raise InvalidEmailCode
        return await services.verify_email_code(code_id=state.code_id, code=code, email=state.email, context=context)
    account, attempt = await codes.confirm_sign_up(code_id=state.code_id, code=code, email=state.email, context=context)
    if account.methods:  # they have signed in elsewhere meanwhile
        raise InvalidEmailCode
    return ByPassword(account.id, account.session_epoch, attempt)


def _marked(error: exceptions.ValidationError | DomainError) -> dict[str, Any]:
    """Return what the page says of a refused sign-up: at a field where it is about one."""
    if isinstance(error, exceptions.ValidationError):
        return {"errors": _by_field(error.detail), "status": 400}
    if isinstance(error, ValidationFailed):
        return {"errors": {reason.field: [reason.message] for reason in error.errors}, "status": error.status}
    if isinstance(error, EmailTaken):
        return {"errors": {"email": [error.detail]}, "status": error.status}
    return refusal_of(error)


def _by_field(detail: Any) -> dict[str, list[str]]:
    """Return the messages of a form's errors, by field."""
    return {field: [str(reason) for reason in reasons] for field, reasons in detail.items()}


def destination(wanted: str) -> str:
    """Return a path of this site, whatever somebody wrote into the address.

    Args:
        wanted: What the address says.
    """
    issuer = settings.IRONAUTH_ISSUER
    path = wanted.removeprefix(issuer) if wanted.startswith(f"{issuer}/") else wanted
    if not path.isprintable() or "\\" in path or not path.startswith("/") or path.startswith("//"):
        return HOME
    return path if not urlsplit(path).netloc else HOME
