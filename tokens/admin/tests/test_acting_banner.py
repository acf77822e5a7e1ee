"""The banner of staff who act as a person: on every page of that browser, as long as it may be true, on no other."""

from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.admin.tests.second_step import signed_in
from accounts.conftest import PASSWORD
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import request_of
from tokens.sessions.acting.rules import ACTING_S

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

BANNER = "Support: <strong>Hedy (helper@example.com)</strong> is signed in as <strong>person@example.com</strong>"
#: Pages of each room that has any, and how they are answered.
PAGES = {
    "/": 200,
    "/no-such-page": 404,
    "/account/signin": 200,
    "/account/signup": 200,
    "/account/forgot": 200,
    "/account/verify-again": 200,
    "/account/invitation?token=x": 400,
    "/account/restore?token=x": 400,
    "/email/verify?token=x": 400,
    "/password/reset?token=x": 400,
    "/oauth/authorize": 400,
    "/oauth/device": 200,
    "/oauth/logout": 200,
    "/oauth/reset?token=x": 400,
    "/oauth/signin": 405,
    "/account/security": 200,
    "/account/security/password": 200,
    "/account/security/no-such-row": 404,
}
HELD = ("acting", "access_token", "refresh_token")


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.IRONAUTH_SIGN_IN_AS = True


@pytest.fixture
def person(db: None) -> User:
    """Who has asked for help."""
    return User.objects.create_user(email="person@example.com", name="Petra", password=PASSWORD)


@pytest.fixture
def browser(api: httpx.AsyncClient, person: User) -> "Browser":
    """Of a member of staff who has begun to act as the person."""
    helper = User.objects.create_user(email="helper@example.com", name="Hedy", password=PASSWORD, is_staff=True)
    helper.user_permissions.add(*Permission.objects.filter(codename__in=("sign_in_as", "view_user")))
    client = signed_in(helper)
    begun = client.post(f"/admin/accounts/user/{person.pk}/sign-in-as/", {"reason": "ticket 7"})
    assert begun.status_code == 302
    return Browser(api, {name: begun.cookies[name].value for name in HELD})


@dataclass
class Browser:
    """What it brings, whatever it is answered."""

    api: httpx.AsyncClient
    cookies: dict[str, str]

    async def ask(self, path: str, site: str = "same-origin", method: str = "GET", **given: Any) -> httpx.Response:
        """Ask for a page as a browser does; ``site`` is who has caused it, "" for a browser that does not say."""
        self.api.cookies.clear()
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Accept": "text/html", **({"Cookie": cookie} if cookie else {})}
        headers |= {"Sec-Fetch-Site": site} if site else {}
        return await self.api.request(method, path, headers=headers, **given)

    async def says(self, path: str = "/oauth/device", site: str = "same-origin", **given: Any) -> int:
        """Return how often the page has the banner."""
        return said(await self.ask(path, site, **given))


def said(answer: httpx.Response) -> int:
    assert answer.text.count('class="acting"') == answer.text.count(BANNER)
    return answer.text.count(BANNER)


async def test_every_page_says_it_once(api: httpx.AsyncClient, browser: Browser) -> None:
    """Pages that are kept for others too say it to this browser alone, and no cache keeps that."""
    stranger = Browser(api, {})
    for path, status in PAGES.items():
        for _ in range(2):  # the second may come out of a cache
            assert await stranger.says(path) == 0, path
            shown = await browser.ask(path)
            assert (shown.status_code, said(shown)) == (status, 1), path
            assert "no-store" in shown.headers["Cache-Control"], path


async def test_pages_on_the_way_to_a_client_say_it(browser: Browser) -> None:
    """The page that a client sends people to, from its own site too, whose requests bring no Strict cookie."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    asked: dict[str, Any] = {"path": "/oauth/authorize", "params": request_of(client)}
    assert await browser.says(**asked) == 1
    del browser.cookies["refresh_token"]
    assert await browser.says(**asked, site="cross-site") == 1  # by the access token
    del browser.cookies["access_token"]
    assert await browser.says(**asked, site="cross-site") == 1  # that is over after ten minutes
    assert await browser.says(**asked, site="") == 1
    for own in ("same-origin", "none"):
        assert await browser.says(**asked, site=own) == 0


async def test_it_ends_when_the_session_may_no_longer_last(browser: Browser) -> None:
    """A second before the 30 minutes are over it is said, and then not."""
    with clock.shifted(ACTING_S - 2):
        assert await browser.says() == 1
    with clock.shifted(ACTING_S + 1):
        assert await browser.says() == 0


async def test_it_goes_with_the_session(browser: Browser, person: User) -> None:
    """Pressing *End* takes it away; so does a page of the account that finds the session over."""
    form = (await browser.ask("/account/security")).text.partition('name="form" value="')[2].partition('"')[0]
    ended = await browser.ask("/account/security", method="POST", data={"form": form, "act": "end_acting"})
    assert ended.headers["location"] == f"/admin/accounts/user/{person.pk}/change/"
    assert 'acting=""; ' in ended.headers["set-cookie"]
    gone = await browser.ask("/account/security")
    assert gone.headers["location"].startswith("/account/signin")
    assert 'acting=""; ' in gone.headers["set-cookie"]


async def test_another_session_of_the_browser_is_not_meant(
    api: httpx.AsyncClient, browser: Browser, person: User
) -> None:
    """Neither with its refresh token, nor with its access token alone."""
    signed_in = await api.post("/api/v1/access/signin", json={"email": person.email, "password": PASSWORD})
    pair = signed_in.json()
    other = Browser(api, {**browser.cookies, **{name: pair[name] for name in ("access_token", "refresh_token")}})
    assert await other.says(site="cross-site") == 0
    del other.cookies["refresh_token"]
    assert await other.says(site="cross-site") == 0
    other.cookies["access_token"] = "x"
    assert await other.says(site="cross-site") == 0


@pytest.mark.parametrize("value", ["", "x", "A" * 64, "A" * 4_096, "A" * 4_097])
async def test_what_is_no_cookie_of_ours_says_nothing(api: httpx.AsyncClient, db: None, value: str) -> None:
    """Any other text, also one as long as a browser keeps, and a longer one."""
    assert await Browser(api, {"acting": value}).says(site="cross-site") == 0


async def test_a_changed_seal_says_nothing(browser: Browser, settings: Any) -> None:
    """One character changed, or sealed under a master key that this server lacks: nothing; under an older one: told."""
    held = browser.cookies["acting"]
    middle = len(held) // 2
    browser.cookies["acting"] = held[:middle] + ("A" if held[middle] != "A" else "B") + held[middle + 1 :]
    assert await browser.says() == 0
    browser.cookies["acting"] = held
    assert await browser.says() == 1
    newer = {"newer": b"n" * 32}
    settings.IRONAUTH_MASTER_KEYS = {**newer, **settings.IRONAUTH_MASTER_KEYS}
    assert await browser.says() == 1
    settings.IRONAUTH_MASTER_KEYS = newer
    assert await browser.says() == 0


def test_leaving_the_admin_takes_it_along(db: None) -> None:
    """What is begun there ends with its session; a browser that says nothing of it is told nothing."""
    for held in ("", "x"):
        staff, client = User.objects.create_superuser(f"root{held}@example.com", PASSWORD), Client()
        client.force_login(staff)
        if held:
            client.cookies["acting"] = held
        left = client.post("/admin/logout/")
        assert left.status_code == 200
        assert [morsel["max-age"] for name, morsel in left.cookies.items() if name == "acting"] == ([0] if held else [])
