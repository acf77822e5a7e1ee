"""The pages on which people look after their account: an overview, and a page of its own for each row of it.

They need no script but for passkeys. What a form does is a call of the API (``accounts.pages.calls``). Forms are good
from this site alone, by the browser's word, and for the person who has opened them, by a MAC of their id.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions

from accounts.errors import StepUpRequired
from accounts.organizations import rules as organization_rules
from accounts.organizations import services as organizations
from accounts.organizations.offers import queries as offers
from accounts.pages import overview
from accounts.pages.account import FORM_HEADERS
from accounts.pages.acts import READS, SIGN_OUT
from accounts.pages.calls import ApiCalls
from accounts.pages.refusals import Refusal
from accounts.profile import zones
from accounts.users import step_up
from accounts.users.signed_in import signed_in
from ironauth.config.cookies import ACTING, REFRESH, SSO, SSO_OTHERS
from ironauth.infrastructure.api.parsers import FormParser
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import DomainError, NotAuthenticated, PermissionDenied, Unavailable
from ironauth.infrastructure.core.user_agents import short_name
from ironauth.infrastructure.crypto import stateless_token
from ironauth.infrastructure.crypto.master_keys import register_purpose
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import cookies, language
from ironauth.infrastructure.http.language import PageLanguage

FOLDER: Final = "accounts/pages/account/"
HEADERS: Final = {**FORM_HEADERS, "Referrer-Policy": "same-origin"}  # so that forms say their Origin
_PURPOSE: Final = register_purpose("ironauth form of an account page")
#: What a browser says of a request that another site has caused: the session's Strict cookie does not come with it.
ELSEWHERE: Final = ("cross-site", "same-site")
CROSS_SITE: Final = _("Another site has sent this form. Open your account here, and try again.")
EXPIRED: Final = _("This form was opened by somebody else, or too long ago. Look at it, and send it again.")


class OwnPage(PageLanguage, AsyncAPIView):
    """A page for the person whose session the browser has; another one is sent to sign in, and comes back."""

    while_acting = frozenset({"GET"})
    parser_classes: ClassVar[list[Any]] = [FormParser]
    api: ApiCalls
    #: What every page of an account is told: the person's time ``zone`` where it is known, and ``acting`` while staff
    #: are signed in as them.
    told: dict[str, Any] = {}

    async def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:
        """Know the person by the cookies, of which a new access token is got where the one before has expired."""
        http = request._request  # noqa: SLF001 - Django's request
        http.META.pop("HTTP_AUTHORIZATION", None)  # browsers bring cookies
        if request.method == "POST" and not cookies.origin_allowed(http):
            raise PermissionDenied(CROSS_SITE)
        self.api = ApiCalls(http)
        try:
            await super().initial(request, *args, **kwargs)
        except (NotAuthenticated, exceptions.NotAuthenticated):
            if not (await self._refreshed(request) or await self._gone_on(request)):
                raise
            await super().initial(request, *args, **kwargs)
        except PermissionDenied:
            self.told = await self._acting()  # who may only look is told so on this page, too
            raise
        if signed_in(request).acting is not None:
            self.told = await self._acting()

    async def _acting(self) -> dict[str, Any]:
        """Return who of staff is signed in as the person, as pages tell it; nothing where nobody is."""
        me = (await self.api.call("GET", "me")).body or {}
        acting = me.get("acting")
        if not acting:
            return {}
        by = f"{acting['name']} ({acting['email']})" if acting["name"] else acting["email"]
        until = datetime.fromisoformat(acting["until"])
        return {"acting": {"by": by, "person": me["email"], "until": until, "form": _token_of(UUID(me["id"]))}}

    async def _refreshed(self, request: ApiRequest) -> bool:
        """Get new tokens for the browser's refresh token; return False where it brings none that is good."""
        if not request.COOKIES.get(cookies.name_of(REFRESH)) or is_from_elsewhere(request):
            return False
        answer = await self.api.call("POST", "refresh")
        if answer.is_good:
            self.api.take_over()
            return True
        if answer.status in (400, 401):
            return False
        raise Unavailable

    async def _gone_on(self, request: ApiRequest) -> bool:
        """Get a session of these pages where the browser has one of single sign-on alone; return whether it did.

        It proves nothing anew: what wants a recent proof asks for it.
        """
        if cookies.name_of(SSO) not in request.COOKIES or is_from_elsewhere(request):
            return False
        answer = await self.api.send_form("oauth:account-session", {})
        if answer.is_good:
            self.api.take_over()
        return answer.is_good

    async def async_dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer, with the cookies that calls of the API have given."""
        response = await super().async_dispatch(request, *args, **kwargs)
        if hasattr(self, "api"):
            self.api.give_cookies(response)
        return response

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Send who is not signed in to where that is done, or back here from another site; else say what is wrong."""
        if isinstance(exc, NotAuthenticated | exceptions.NotAuthenticated):
            if self.request.method == "GET" and is_from_elsewhere(self.request):
                return rendered("go_on", {"address": self.request.get_full_path()})
            is_several = cookies.name_of(SSO_OTHERS) in self.request.COOKIES
            there = reverse(f"email-pages:{'accounts' if is_several else 'signin'}-page")
            response = see_other(f"{there}?{urlencode({'next': self.request.path})}")
            if cookies.name_of(ACTING) in self.request.COOKIES:  # nobody acts here any more
                cookies.give(response, ACTING, "", max_age_s=0)
            return response
        if isinstance(exc, DomainError):
            return rendered("problem", {"detail": exc.detail, **self.told}, status=exc.status, headers=exc.headers)
        if isinstance(exc, Http404):
            return rendered("problem", {"detail": _("There is nothing here."), **self.told}, status=404)
        problem = super().handle_exception(exc)
        headers = {name: problem[name] for name in ("Allow", "Retry-After") if name in problem.headers}
        detail = _("The request could not be answered.")
        return rendered("problem", {"detail": detail, **self.told}, status=problem.status_code, headers=headers)

    async def held(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return what the API says of the person, by the names of its URLs."""
        wanted = names if "me" in names else (*names, "me")
        answers = await asyncio.gather(*(self.api.call("GET", name) for name in wanted))
        for answer in answers:
            if answer.status == 401:  # noqa: PLR2004 - RFC 9110 §15.5.2: ended meanwhile
                raise NotAuthenticated
            if not answer.is_good:
                raise Unavailable
        held = {name: answer.body for name, answer in zip(wanted, answers, strict=True)}
        self.told = {**self.told, "zone": held["me"]["zoneinfo"]}
        for one in (*held.get("sessions", ()), *held.get("kept-devices", ())):
            one["device"] = short_name(one["user_agent"]) or "—"
        for consent in held.get("consents", ()):
            consent["words"] = overview.words_of(consent["scope"])
            consent["apis"] = [
                {"name": consent["resource_names"].get(one, one), "identifier": one, "words": overview.words_of(scope)}
                for one, scope in consent["resources"].items()
            ]
        return held


class OverviewPage(OwnPage):
    """GET, POST /account/security."""

    while_acting = frozenset({"GET", "POST"})  # the way out

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest) -> HttpResponse:
        """Show every row, and what there is."""
        return await self._page(request)

    async def _page(self, request: ApiRequest, refusal: Refusal | None = None) -> HttpResponse:
        held = await self.held(READS)
        if organization_rules.enabled():
            person = signed_in(request).id
            held["organizations"] = await organizations.memberships_of(user_id=person)
            held["offers"] = await database().read(offers.waiting_for, person)
        self.api.take_over()  # the person's language among it: the first page after a sign-in has it, too
        with language.spoken(request._request) as code:  # noqa: SLF001 - Django's request
            context = {"lines": overview.lines(held), "me": held["me"], "form": form_token(request), "refusal": refusal}
            page = rendered("overview", {**context, **self.told}, status=refusal.status if refusal else 200)
        page.headers["Content-Language"] = code
        return page

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Sign out, of applications as well; staff who are signed in as the person only end that."""
        if not is_own_form(request):
            return await self._page(request, Refusal("sign_out", 403, EXPIRED))
        if signed_in(request).acting is not None:
            await self.api.call(SIGN_OUT.method, SIGN_OUT.call)
            response = see_other(reverse("admin:accounts_user_change", args=[signed_in(request).id]))
            cookies.give(response, ACTING, "", max_age_s=0)
            return response
        left = await self.api.send_form("oauth:logout", {"confirmation": "account-page"})
        answer = await self.api.call(SIGN_OUT.method, SIGN_OUT.call) if left.is_good else left
        if not answer.is_good:
            return await self._page(
                request, Refusal("sign_out", answer.status, _("Signing out did not work: try again in a moment."))
            )
        is_several = cookies.name_of(SSO_OTHERS) in request.COOKIES
        return see_other(reverse(f"email-pages:{'accounts' if is_several else 'signin'}-page"))


def is_recent(request: ApiRequest) -> bool:
    """Tell whether the person has proved who they are within ten minutes."""
    try:
        step_up.require_recent(signed_in(request))
    except StepUpRequired:
        return False
    return True


def form_token(request: ApiRequest) -> str:
    """Return what the forms of a page carry: that it was opened by this person."""
    return _token_of(signed_in(request).id)


def _token_of(user_id: UUID) -> str:
    return stateless_token.mint(_PURPOSE, b"", user_id.bytes)


def is_own_form(request: ApiRequest) -> bool:
    """Tell whether a form comes from a page that this person has opened."""
    given = str(request.data.get("form", ""))
    return stateless_token.parse(_PURPOSE, given, 0, signed_in(request).id.bytes) is not None


def row_address(section: str) -> str:
    """Return the address of a row's page."""
    return reverse("email-pages:account-row", kwargs={"section": section})


def rendered(template: str, context: dict[str, Any], *, status: int = 200, headers: Any = None) -> HttpResponse:
    """Return a page of an account.

    Args:
        template: Its name in the folder of the account's templates.
        context: What the template sees; times are written in its ``zone``, and in UTC without one.
        status: The HTTP status.
        headers: Header fields beside those of every such page.
    """
    zone = context.get("zone", "")
    with timezone.override(ZoneInfo(zone) if zone in zones() else UTC):
        text = render_to_string(f"{FOLDER}{template}.html", context)
    return HttpResponse(text, status=status, headers={**HEADERS, **(headers or {})})


def is_from_elsewhere(request: Any) -> bool:
    """Tell whether another site has caused the request."""
    return request.META.get("HTTP_SEC_FETCH_SITE") in ELSEWHERE


def see_other(address: str) -> HttpResponse:
    """Return 303, by which a browser asks for another page after a form."""
    return HttpResponseRedirect(address, status=303, headers={"Cache-Control": "no-store"})
