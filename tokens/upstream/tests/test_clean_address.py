"""The page after the way back from a provider: what that sent does not stay in its address, and is good for nothing."""

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.staticfiles import finders

from accounts.federation.models import Identity, UpstreamProvider
from accounts.users.models import User
from tokens.oauth.tests.walk import is_page
from tokens.sessions.models import Session
from tokens.tests.browser import Member, Pair
from tokens.tests.second_factor import enrol
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import back, is_in, sent, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

SCRIPT = "tokens/clean_address.js"


def cleans(page: httpx.Response) -> bool:
    """Tell whether a page has the script that cleans its address, once and in its head."""
    assert page.text.count(SCRIPT) <= 1
    return SCRIPT in page.text[: page.text.index("</head>")]


async def linked(member: Member, provider: FakeProvider) -> None:
    """Link the member's account to the tests' provider."""
    user, row = await User.objects.aget(email=member["email"]), await UpstreamProvider.objects.aget()
    await Identity.objects.acreate(user=user, provider=row, issuer=provider.issuer, subject="subject-1")


async def test_pages_that_are_shown_there(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """Where the account has to be proved first, where the provider refuses, and where the way has expired."""
    provider.claims = {"email": member["email"]}
    assert cleans(await through(api, provider))
    refused = await back(api, provider, await sent(api, provider), code=None, error="access_denied")
    assert is_page(refused, 401, "Sign in")
    assert cleans(refused)
    expired = await back(api, provider, {"state": "none"})
    assert is_page(expired, 400, "has expired")
    assert cleans(expired)
    assert await sync_to_async(finders.find)(SCRIPT)
    assert "default-src 'none'; script-src 'self'" in expired.headers["content-security-policy"]


async def test_pages_elsewhere_have_none(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """Their address is theirs; a redirect has no page."""
    page = await api.get("/account/signin", params={"next": "/account/security"})
    assert SCRIPT not in page.text
    await linked(member, provider)
    answer = await through(api, provider)
    assert is_in(answer)
    assert SCRIPT not in answer.text
    assert "code=" not in answer.headers["location"]
    assert "state=" not in answer.headers["location"]


async def test_without_javascript_it_is_good_for_nothing(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """The address as it stands, opened again there or in another browser: it has expired, and signs nobody in."""
    await enrol(api, pair)
    await linked(member, provider)
    asked = await sent(api, provider)
    page = await back(api, provider, asked)
    assert is_page(page, 200, "code")
    assert cleans(page)
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    before = await Session.objects.acount()
    assert is_page(await back(api, provider, asked), 400, "has expired")
    api.cookies.clear()
    assert is_page(await back(api, provider, asked), 400, "has expired")
    assert await Session.objects.acount() == before
