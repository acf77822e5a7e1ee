"""``request.user`` of a project's views: which cookies sign a person in there, and which do not."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import ResolverMatch

from accounts.users.models import User
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import authorize, by_password
from tokens.sessions.models import Session
from tokens.sign_in.web_user import WebUserMiddleware
from tokens.tests.browser import REFRESH, SAME_ORIGIN, Member, by_cookie

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]


def view(_request: Any) -> HttpResponse:
    """Answer nothing: only what stands in the request counts here."""
    return HttpResponse()


def asked(cookies: dict[str, str], *, app_name: str = "", found: Any = None) -> Any:
    """Return a request with these cookies as a view gets it, after Django's own middleware found ``found``."""
    request: Any = RequestFactory().get("/")
    request.COOKIES.update(cookies)
    request.user = found or AnonymousUser()
    request.resolver_match = ResolverMatch(view, (), {}, app_names=[app_name] if app_name else None)
    WebUserMiddleware(view).process_view(request, view, (), {})
    return request


async def address(cookies: dict[str, str], *, app_name: str = "", found: Any = None) -> str:
    """Return the address of the person that an async view is told, "" for nobody."""
    request = asked(cookies, app_name=app_name, found=found)
    user = await request.auser() if hasattr(request, "auser") else request.user
    return user.email if user.is_authenticated else ""


@pytest.fixture
async def cookies(api: httpx.AsyncClient, member: Member) -> dict[str, str]:
    """The cookies of a sign-in by the cookie transport."""
    answer = await by_cookie(api, member)
    return dict(answer.cookies)


@pytest.mark.parametrize("name", ["access_token", "refresh_token"])
async def test_either_cookie_of_the_session_signs_in(name: str, cookies: dict[str, str], member: Member) -> None:
    """The access token, or the refresh token alone; neither does once the session has ended."""
    assert await address({name: cookies[name]}) == member["email"]
    assert await address({name: f"{cookies[name][:-6]}AAAAAA"}) == ""
    await sync_to_async(Session.objects.all().delete)()
    assert await address({"refresh_token": cookies["refresh_token"]}) == ""


async def test_the_admin_keeps_its_own_sign_in(cookies: dict[str, str]) -> None:
    """A view of any AdminSite is told nobody, whatever cookies the browser has."""
    assert await address(cookies, app_name="admin") == ""
    assert await address({}) == ""


async def test_a_session_of_the_admin_signs_nobody_in(cookies: dict[str, str], member: Member) -> None:
    """A view of the project sees nobody by the admin's session alone, and else who is signed in at our pages."""
    staff = await sync_to_async(User.objects.create_user)(email="staff@example.com", is_staff=True, is_superuser=True)
    assert await address({}, found=staff) == ""
    assert await address({}, found=staff, app_name="admin") == "staff@example.com"
    assert await address(cookies, found=staff) == member["email"]


async def test_an_exchanged_refresh_token_signs_nobody_in(
    api: httpx.AsyncClient, cookies: dict[str, str], member: Member
) -> None:
    """Its successor does."""
    answer = await api.post(REFRESH, headers=SAME_ORIGIN)
    assert answer.status_code in {200, 204}, answer.text
    assert await address({"refresh_token": cookies["refresh_token"]}) == ""
    assert await address({"refresh_token": answer.cookies["refresh_token"]}) == member["email"]


async def test_who_is_deactivated_is_nobody(cookies: dict[str, str]) -> None:
    """At once, whatever a cache still holds."""
    await User.objects.aupdate(is_active=False)
    assert await address(cookies) == ""


async def test_an_sso_session_signs_in(api: httpx.AsyncClient, member: Member) -> None:
    """Who signed in on the way to a client is signed in here; after a new password no more."""
    client = (await sync_to_async(make_client)(trusted=True))[0]
    assert isinstance(client, OAuthClient)
    await by_password(api, await authorize(api, client), member["email"])
    cookie = {"sso": api.cookies["sso"]}
    assert await address(cookie) == member["email"]
    await User.objects.aupdate(session_epoch=7)
    assert await address(cookie) == ""


async def test_what_depends_on_the_person_says_so(cookies: dict[str, str], member: Member) -> None:
    """A cache must keep the answers of two persons apart; one that asked for nobody may be shared."""
    request = asked(cookies)
    shared = WebUserMiddleware(view).process_response(request, HttpResponse())
    assert not shared.has_header("Vary")
    assert (await request.auser()).email == member["email"]
    own = WebUserMiddleware(view).process_response(request, HttpResponse())
    assert own["Vary"] == "Cookie"
