"""The page that the link of an invitation opens: it makes the account, or declines."""

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import translation
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError

from accounts.errors import EmailTaken
from accounts.invitations import services as invitations
from accounts.invitations.continuing import Application
from accounts.invitations.errors import InvalidInvitation
from accounts.invitations.inputs import AcceptInput
from accounts.invitations.services import Invited
from accounts.pages import meter
from accounts.pages.email import SCRIPT_HEADERS, TokenPage
from accounts.privacy import terms
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, ValidationFailed
from ironauth.infrastructure.http import client_context, language, second_clicks


class InvitationPage(TokenPage):
    """GET, POST /account/invitation."""

    template = "accounts/pages/invitation.html"
    headers = SCRIPT_HEADERS
    invalid = InvalidInvitation
    ends = ("accepted", "declined")
    #: The language that staff have chosen for the invited person; "" before it is known, and where they have not.
    of_person: str = ""
    #: The name of the organisation that a person with an account is invited to; "" for none.
    joins: str = ""

    async def about(self, token: str) -> dict[str, Any]:
        """Return who is invited. Raises ``EmailTaken`` where they have an account: the link has proved the address.

        To an organisation they are invited all the same: signed in they accept it on the page of their organisations.
        """
        invited = await invitations.opened(token=token)
        if invited.taken:
            self.joins = invited.organization
            raise EmailTaken
        self.of_person = invited.language
        shortest = settings.IRONAUTH_PASSWORD_MIN_LENGTH
        return {"invited": invited, "name": invited.name, "shortest": shortest, "terms": terms.shown()}

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Do what was chosen, or show the form again with what was typed and, at each field, what is wrong."""
        try:
            found = await invitations.sought(token=str(request.data.get("token", "")))
        except DomainError as error:  # the database is away
            return self._failed(error)
        self.of_person = found.language if found is not None else ""
        with translation.override(self._language()):
            return await self._answered(request, found)

    async def _answered(self, request: ApiRequest, found: Invited | None) -> HttpResponse:
        typed = {"name": str(request.data.get("name", "")), "accepted": str(request.data.get("terms_version", ""))}
        if meter.FIELD in request.data:
            return await self._checked(request, **typed)
        try:
            self.done = await self.act(request)
        except ValidationFailed as error:
            return await self._marked(request, {reason.field: [reason.message] for reason in error.errors})
        except ValidationError as error:  # of the form itself
            fields = error.detail if isinstance(error.detail, dict) else {}
            if "token" in fields:
                return self._failed(self.invalid())
            wrong = {str(field): [str(reason) for reason in reasons] for field, reasons in fields.items()}
            return await self._marked(request, wrong)
        except DomainError as error:
            return await self._second(request, error)
        await second_clicks.note(request, self.done, led_to=found.id if found is not None else None)
        return self._page(done=self.done, application=_leads(found))

    async def _second(self, request: ApiRequest, error: DomainError) -> HttpResponse:
        """Return what the first of two clicks was answered, where this is the second one; else what went wrong."""
        first = await second_clicks.first_of(request, *self.ends) if isinstance(error, self.invalid) else None
        if first is None:
            return self._failed(error)
        self.done, self.is_second = first.word, True
        used = await invitations.used(invitation_id=first.led_to) if first.led_to is not None else None
        self.of_person = used.language if used is not None else ""
        with translation.override(self._language()):
            return self._page(done=self.done, application=_leads(used))

    async def act(self, request: ApiRequest) -> str:
        """Make the account, or decline the invitation; for that, nothing has to be typed."""
        address = client_context.address_of(request)
        if request.data.get("answer") == "decline":
            await invitations.decline(token=str(request.data.get("token", "")), address=address)
            return "declined"
        data = await self.validated(request, AcceptInput)
        await invitations.accept(**data, address=address)
        return "accepted"

    async def _marked(self, request: ApiRequest, errors: dict[str, list[str]]) -> HttpResponse:
        token = str(request.data.get("token", ""))
        try:
            about = await self.about(token)
        except DomainError as error:
            return self._failed(error)
        typed = {"name": str(request.data.get("name", "")), "accepted": str(request.data.get("terms_version", ""))}
        return self._page(token=token, errors=errors, status=ValidationFailed.status, **about | typed)

    def _language(self) -> str:
        return language.chosen(self.request._request, of_person=self.of_person)  # noqa: SLF001 - Django's request

    def _page(self, **context: Any) -> HttpResponse:
        """Return the page in the language of the invited person."""
        code = self._language()
        with translation.override(code):
            page = super()._page(**context)
        page.headers["Content-Language"] = code
        if "done" in context and self.of_person:  # so that the page for signing in, which comes next, has it too
            language.keep_own(page, self.of_person)
        return page

    def _failed(self, error: DomainError, **context: Any) -> HttpResponse:
        """Return what went wrong; a person with an account is led to signing in."""
        taken = isinstance(error, EmailTaken)
        page = super()._failed(error, taken=taken, joins=self.joins if taken else "", **context)
        if taken and self.joins:
            page.status_code = 200  # nothing has failed
        return page


def _leads(found: Invited | None) -> Application | None:
    """Return the application that an invitation leads to, with the address of who signs in there; None for none."""
    return found.application.with_hint(found.email) if found is not None and found.application else None
