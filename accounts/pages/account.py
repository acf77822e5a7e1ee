"""Pages for people without a product front end: sign in, ask for a message, look after one's own account, or delete it.

They hold nothing of anybody: their scripts ask the API with the cookie transport, under its rules and throttles.
"""

from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from drf_spectacular.utils import extend_schema

from accounts.email.views import OpenView
from ironauth.infrastructure.api.views import ApiRequest

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


class AccountPage(OpenView):
    """A page that is the same for everybody."""

    template: ClassVar[str]

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show the page; nothing is asked of the database."""
        return HttpResponse(render_to_string(self.template, self.context()), headers=HEADERS)

    def context(self) -> dict[str, Any]:
        """Return what the page says of this deployment, the same for everybody."""
        return {}


class SecurityPage(AccountPage):
    """GET /account/security."""

    template = "accounts/pages/security.html"

    def context(self) -> dict[str, Any]:
        """Say for how many days a deletion can be taken back."""
        return {"grace_days": settings.IRONAUTH_DELETION_GRACE_DAYS}


class AccountHome(OpenView):
    """GET /account, which leads to /account/security, and that to signing in."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Go on."""
        return HttpResponseRedirect(reverse("email-pages:security-page"))


class ForgotPage(AccountPage):
    """GET /account/forgot: ask for a message that lets one choose a new password."""

    template = "accounts/pages/forgot.html"


class VerifyAgainPage(AccountPage):
    """GET /account/verify-again: ask for another message that confirms an address."""

    template = "accounts/pages/verify_again.html"
