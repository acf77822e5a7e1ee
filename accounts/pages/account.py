"""Pages for people without a product front end who ask for a message; they hold nothing of anybody."""

from typing import Any, ClassVar

from django.http import HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError

from accounts.email import services as email_services
from accounts.email.views import OpenView
from accounts.users.inputs import EmailInput
from ironauth.infrastructure.api.parsers import FormParser
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, PermissionDenied
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.http.language import PageLanguage

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    # Passkeys of this site are for its own pages, not for a frame of another one in them.
    "Permissions-Policy": "publickey-credentials-create=(self), publickey-credentials-get=(self)",
}


FORM_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'"),
}
#: What browsers say of requests that this site's own pages, or a person, have caused.
FROM_HERE = ("same-origin", "none")
CROSS_SITE = _("Another site has sent this form: type the address here.")


class AccountHome(OpenView):
    """GET /account, which leads to /account/security, and that to signing in."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Go on."""
        return HttpResponseRedirect(reverse("email-pages:security-page"))


class AskPage(PageLanguage, OpenView):
    """A form that asks for a message; the answer is the same whether or not anybody has the address."""

    parser_classes: ClassVar[list[Any]] = [FormParser]
    template: ClassVar[str]

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the form; nothing is asked of the database."""
        return self._page()

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Have the message sent, or say on the same page what is wrong."""
        typed = str(request.data.get("email", ""))
        try:
            if request.META.get("HTTP_SEC_FETCH_SITE", "same-origin") not in FROM_HERE:
                raise PermissionDenied(CROSS_SITE)
            data = await self.validated(request, EmailInput)
            await self.ask(email=data["email"], address=client_context.address_of(request))
        except ValidationError as error:
            fields = error.detail if isinstance(error.detail, dict) else {}
            problem = " ".join(str(reason) for reasons in fields.values() for reason in reasons)
            return self._page(email=typed, problem=problem, status=400)
        except DomainError as error:
            page = self._page(email=typed, problem=error.detail, status=error.status)
            for name, value in error.headers.items():
                page.headers[name] = value
            return page
        return self._page(asked=True, email=data["email"])

    async def ask(self, *, email: str, address: str) -> None:
        """Call the service. Raises what it raises."""
        raise NotImplementedError

    def _page(self, *, status: int = 200, **context: Any) -> HttpResponse:
        return HttpResponse(render_to_string(self.template, context), status=status, headers=FORM_HEADERS)


class ForgotPage(AskPage):
    """GET, POST /account/forgot: ask for a message that lets one choose a new password."""

    template = "accounts/pages/forgot.html"

    async def ask(self, *, email: str, address: str) -> None:
        """Have the message sent. Raises ``Throttled``."""
        await email_services.request_password_reset(email=email, address=address)


class VerifyAgainPage(AskPage):
    """GET, POST /account/verify-again: ask for another message that confirms an address."""

    template = "accounts/pages/verify_again.html"

    async def ask(self, *, email: str, address: str) -> None:
        """Have the message sent. Raises ``Throttled``."""
        await email_services.resend_verification(email=email, address=address)
