"""Links in messages on the way to a client that its own document describes: who hears of them, what they still do."""

import re

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock, constant_time
from tokens.clients.documents.tests.test_documents import URL, Web, request, web  # noqa: F401 - a fixture
from tokens.oauth.authorize.tests.test_verify_link import EMAIL, FORGOT, VERIFY, is_proved, link, message, sign_up
from tokens.oauth.tests.walk import AUTHORIZE, form_to, is_page, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

RESET = "/oauth/reset"
OTHER = "seven amber kites over Lyon"
NAME = "Agent Smith"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(constant_time, "STEP_S", 0.001)  # times are the business of other tests
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"


async def begun(api: httpx.AsyncClient, kind: str) -> str:
    """Have a message sent on the way to the client; return its link."""
    first = await api.get(AUTHORIZE, params=request())
    if kind == VERIFY:
        await sign_up(api, first)
        return await link()
    await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD, email_verified_at=clock.now())
    await send(api, first, FORGOT, send="1", email=EMAIL)
    found = re.search(r"http://localhost:8000(/oauth/reset\?token=\S+)", await sync_to_async(message)("reset_password"))
    assert found is not None
    return found[1]


async def finished(api: httpx.AsyncClient, page: httpx.Response, kind: str) -> None:
    """Send the page's form, and see that what the link is for is done."""
    typed = {"password": PASSWORD} if kind == VERIFY else {"new_password": OTHER}
    done = await send(api, page, kind, **typed)
    assert is_page(done, 200), done.text
    if kind == VERIFY:
        assert await is_proved()
    else:
        user = await User.objects.aget(email=EMAIL)
        assert await sync_to_async(user.check_password)(OTHER)


@pytest.mark.parametrize("kind", [VERIFY, RESET])
async def test_who_opens_it_elsewhere_is_told_of_to_nobody(api: httpx.AsyncClient, web: Web, kind: str) -> None:  # noqa: F811
    """A mail scanner, or anybody in another browser, has no document fetched: by the page, and by its form."""
    web.keep_s = 60
    there = await begun(api, kind)
    with clock.shifted(61):
        api.cookies.clear()
        page = await api.get(there)
        assert is_page(page, 200)
        assert NAME not in page.text
        await finished(api, page, kind)
    assert web.asked == [URL]


@pytest.mark.parametrize("kind", [VERIFY, RESET])
async def test_in_the_browser_that_came_from_it(api: httpx.AsyncClient, web: Web, kind: str) -> None:  # noqa: F811
    """There the document counts as it is now."""
    web.keep_s = 60
    there = await begun(api, kind)
    with clock.shifted(61):
        page = await api.get(there)
        assert is_page(page, 200, NAME)
        assert "request" in form_to(page, kind).fields
        await finished(api, page, kind)
    assert web.asked == [URL] * 2


@pytest.mark.parametrize("kind", [VERIFY, RESET])
@pytest.mark.parametrize("opened_s", [0, 61])
async def test_too_many_documents(
    api: httpx.AsyncClient,
    web: Web,  # noqa: F811
    settings: Settings,
    throttled: None,
    kind: str,
    opened_s: float,
) -> None:
    """Where no document is fetched any more the link does what it is for: opened before that, or after."""
    settings.IRONAUTH_THROTTLE_REGISTRATIONS = 1
    web.keep_s = 60
    there = await begun(api, kind)
    with clock.shifted(opened_s):
        page = await api.get(there)
    assert is_page(page, 200)
    assert ("request" in form_to(page, kind).fields) is (opened_s == 0)
    with clock.shifted(61):
        await finished(api, page, kind)
    assert web.asked == [URL]
