"""The pages that links in messages open. GET shows a form and changes nothing: mail scanners fetch every link.

Nothing from another host, no script but where a password is chosen, and no Referer that would carry the token on. They
need no CSRF token: the token in the form allows the act, and nothing that the browser sends by itself (no cookie)
counts.
"""

from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError

from accounts.email import services as email_services
from accounts.email.services import Confirmed
from accounts.email.views import OpenView
from accounts.errors import InvalidEmailToken
from accounts.fields import TextField
from accounts.pages import meter
from accounts.users.inputs import EmailTokenInput, ResetPasswordInput, VerifyEmailInput
from ironauth.infrastructure.api.parsers import FormParser
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, FieldError, ValidationFailed
from ironauth.infrastructure.http import client_context, second_clicks
from ironauth.infrastructure.http.language import PageLanguage

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token in it
}
#: Where a password is chosen: its meter, and the button that shows it.
SCRIPT_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": (
        f"{HEADERS['Content-Security-Policy']}; script-src 'self'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
}


class TokenPage(PageLanguage, OpenView):
    """A form with the token of the link, and what came of sending it."""

    parser_classes = (FormParser,)
    template: ClassVar[str]
    headers: ClassVar[dict[str, str]] = HEADERS
    #: What is said of a link that is of no use.
    invalid: ClassVar[type[DomainError]] = InvalidEmailToken
    #: What `act` may have done.
    ends: ClassVar[tuple[str, ...]]
    #: What was done, by this request or by the first of two clicks.
    done: str = ""
    is_second: bool = False

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the form, or that the link is of no use: nobody fills in a form for nothing."""
        token = request.query_params.get("token", "")
        if not token:
            return self._failed(self.invalid())
        try:
            return self._page(token=token, **await self.about(token))
        except DomainError as error:  # the database is away
            return self._failed(error)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Do what the token allows and say so, or show the form again with the reasons."""
        if meter.FIELD in request.data:
            return await self._checked(request)
        try:
            self.done = await self.act(request)
        except ValidationFailed as error:
            return await self._again(request, [reason.message for reason in error.errors])
        except ValidationError as error:  # of the form itself
            fields = error.detail if isinstance(error.detail, dict) else {}
            if "token" in fields:
                return self._failed(self.invalid())
            return await self._again(request, [str(reason) for reasons in fields.values() for reason in reasons])
        except DomainError as error:
            self.done = await self.done_before(request, error)
            return self._page(done=self.done) if self.done else self._failed(error)
        await second_clicks.note(request, self.done)
        return self._page(done=self.done)

    async def done_before(self, request: ApiRequest, error: DomainError) -> str:
        """Return what the first of two clicks has done, where this one finds the link used up by it; else "".

        Args:
            request: The request.
            error: What was wrong with it.
        """
        first = await second_clicks.first_of(request, *self.ends) if isinstance(error, self.invalid) else None
        self.is_second = first is not None
        return first.word if first is not None else ""

    async def about(self, token: str) -> dict[str, Any]:
        """Return what else the form says, and change nothing. Raises ``InvalidEmailToken`` for a link of no use."""
        return {}

    async def act(self, request: ApiRequest) -> str:
        """Call the service, and return a word for what was done; raises what it raises."""
        raise NotImplementedError

    async def _again(self, request: ApiRequest, reasons: list[str]) -> HttpResponse:
        token = request.data.get("token", "")
        try:
            about = await self.about(token)
        except DomainError as error:  # the database is away
            return self._failed(error)
        return self._page(token=token, reasons=reasons, status=ValidationFailed.status, **about)

    async def _checked(self, request: ApiRequest, **typed: Any) -> HttpResponse:
        """Show the form again with how good the password looks, which is not kept; ``typed``: what else was typed."""
        token, data = str(request.data.get("token", "")), request.data
        try:
            about = await self.about(token)
        except DomainError as error:
            return self._failed(error)
        address = client_context.address_of(request)
        password = str(data.get("new_password") or data.get("password", ""))
        shown = dict(await meter.shown(password=password, name=str(data.get("name", "")), address=address))
        headers = shown.pop("headers", {})
        page = self._page(token=token, **about | typed | shown)
        for name, value in headers.items():
            page.headers[name] = value
        return page

    def _failed(self, error: DomainError, **context: Any) -> HttpResponse:
        """Return what went wrong; a link that is of no use any more comes with the page where to ask for another."""
        stale = isinstance(error, self.invalid)
        page = self._page(failure=error.detail, status=error.status, stale=stale, **context)
        for name, value in error.headers.items():
            page.headers[name] = value
        return page

    def _page(self, *, status: int = 200, **context: Any) -> HttpResponse:
        return HttpResponse(render_to_string(self.template, context), status=status, headers=self.headers)


class VerifyForm(VerifyEmailInput):
    """Has a field for each kind of code."""

    recovery_code = TextField(required=False, allow_blank=True)


class VerifyPage(TokenPage):
    """GET, POST /email/verify."""

    template = "accounts/pages/verify.html"
    headers = SCRIPT_HEADERS
    ends = ("confirmed", "started_clean", "disowned")
    #: What this request has proved of the account's person.
    confirmed: Confirmed | None = None

    async def about(self, token: str) -> dict[str, Any]:
        """Return whose account it is about and since when: people may have got a stranger's message."""
        asked = await email_services.asked_by(token=token)
        if asked is None:
            raise InvalidEmailToken
        by_recovery = bool(self.request.data.get("recovery_code"))
        return {"asked": asked, "by_recovery": by_recovery, "shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH}

    async def act(self, request: ApiRequest) -> str:
        """Confirm the address, or end the account of the stranger who gave it.

        A click alone confirms nothing where the account may be a stranger's: then the password is asked for, or chosen.
        """
        data = await self.validated(request, VerifyForm)
        token, address = data["token"], client_context.address_of(request)
        if recovery_code := data.pop("recovery_code", ""):
            data["code"] = recovery_code
        if request.data.get("answer") == "not_me":
            await email_services.disown_address(token=token, address=address)
            return "disowned"
        password, chosen = data.get("password", ""), data.get("new_password", "")
        if password and request.data.get("answer") != "choose":
            chosen = ""  # a browser may fill in both fields: the button says which one is meant
        if not (password or chosen):
            await self._require_owner(token)
        self.confirmed = await email_services.confirm_address(**(data | {"new_password": chosen}), address=address)
        return "started_clean" if chosen else "confirmed"

    async def _require_owner(self, token: str) -> None:
        """Raise ``ValidationFailed`` where a click is not enough."""
        asked = await email_services.asked_by(token=token)
        if asked is not None and asked.needs_owner:
            reason = _("Type the account's password.")
            if not asked.moves:
                reason = _("Type the account's password, or choose a new one.")
            raise ValidationFailed(errors=[FieldError("password", "required", reason)])


class ResetPage(TokenPage):
    """GET, POST /password/reset."""

    template = "accounts/pages/reset.html"
    headers = SCRIPT_HEADERS
    ends = ("reset",)

    async def about(self, token: str) -> dict[str, Any]:
        """Raise ``InvalidEmailToken`` for a link that sets no password: nobody types one for nothing."""
        await email_services.reset_by(token=token)
        return {"shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH}

    async def act(self, request: ApiRequest) -> str:
        """Set the new password."""
        data = await self.validated(request, ResetPasswordInput)
        await email_services.reset_password(**data, address=client_context.address_of(request))
        return "reset"


class RestorePage(TokenPage):
    """GET, POST /account/restore."""

    template = "accounts/pages/restore.html"
    ends = ("restored", "restored_unproved", "disowned")

    async def about(self, token: str) -> dict[str, Any]:
        """Return whose account it is about, since when, and whether anybody has proved its address."""
        asked = await email_services.deleted_by(token=token)
        if asked is None:
            raise InvalidEmailToken
        return {"asked": asked}

    async def act(self, request: ApiRequest) -> str:
        """Take the deletion back, or leave a stranger's account to its end."""
        data = await self.validated(request, EmailTokenInput)
        token, address = data["token"], client_context.address_of(request)
        if request.data.get("answer") == "not_me":
            await email_services.disown_deleted(token=token, address=address)
            return "disowned"
        return "restored" if await email_services.restore_account(token=token, address=address) else "restored_unproved"
