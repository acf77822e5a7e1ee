"""The banner of staff who act as a person: on every page of that browser, as long as it may be true, on no other."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.admin.tests.second_step import CODE, Enrolled, password
from accounts.conftest import PASSWORD
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import request_of
from tokens.sessions.acting.rules import ACTING_S
from tokens.tests.browser import LOGOUT, SAME_ORIGIN

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
FROM_CLIENT = {"Sec-Fetch-Site": "cross-site"}


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.IRONAUTH_SIGN_IN_AS = True


@pytest.fixture
def person(db: None) -> User:
    """Who has asked for help."""
    return User.objects.create_user(email="person@example.com", name="Petra", password=PASSWORD)


@pytest.fixture
def browser(person: User) -> Client:
    """Of a member of staff who has begun to act as the person."""
    helper = User.objects.create_user(email="helper@example.com", name="Hedy", password=PASSWORD, is_staff=True)
    helper.user_permissions.add(*Permission.objects.filter(codename__in=("sign_in_as", "view_user")))
    app, client = Enrolled(helper), Client()
    password(client, helper)
    assert client.post(CODE, {"code": app.code()}).status_code == 302
    begun = client.post(f"/admin/accounts/user/{person.pk}/sign-in-as/", {"reason": "ticket 7"})
    assert begun.status_code == 302
    return client


def page(browser: Client, path: str, **fields: str) -> Any:
    """Return a page as a browser asks for it by a link of this site."""
    return browser.get(path, headers={"Accept": "text/html", **SAME_ORIGIN, **fields})


def said(answer: Any) -> int:
    """Return how often the page has the banner."""
    text = answer.content.decode()
    assert text.count('class="acting"') == text.count(BANNER)
    return int(text.count(BANNER))


def test_every_page_says_it_once(browser: Client) -> None:
    """Pages that are kept for others too say it to this browser alone, and no cache keeps that."""
    stranger = Client()
    for path, status in PAGES.items():
        for _ in range(2):  # the second may come out of a cache
            assert said(page(stranger, path)) == 0, path
            shown = page(browser, path)
            assert (shown.status_code, said(shown)) == (status, 1), path
            assert "no-store" in shown.headers["Cache-Control"], path


def test_pages_on_the_way_to_a_client_say_it(browser: Client) -> None:
    """The page that a client sends people to, from its own site too, whose requests bring no Strict cookie."""
    client, _ = make_client(trusted=True)
    asked = {f"{name}": f"{value}" for name, value in request_of(client).items()}
    assert said(browser.get("/oauth/authorize", asked, headers=SAME_ORIGIN)) == 1
    del browser.cookies["refresh_token"]
    assert said(browser.get("/oauth/authorize", asked, headers=FROM_CLIENT)) == 1  # by the access token
    del browser.cookies["access_token"]
    assert said(browser.get("/oauth/authorize", asked, headers=FROM_CLIENT)) == 1  # that is over after ten minutes
    assert said(browser.get("/oauth/authorize", asked)) == 1  # a browser that does not say
    for own in ("same-origin", "none"):
        assert said(browser.get("/oauth/authorize", asked, headers={"Sec-Fetch-Site": own})) == 0


def test_it_ends_when_the_session_may_no_longer_last(browser: Client) -> None:
    """A second before the 30 minutes are over it is said, and then not."""
    with clock.shifted(ACTING_S - 2):
        assert said(page(browser, "/oauth/device")) == 1
    with clock.shifted(ACTING_S + 1):
        assert said(page(browser, "/oauth/device")) == 0


def test_it_goes_with_the_session(browser: Client, person: User) -> None:
    """Pressing *End* takes it away; so does a page of the account that finds the session over."""
    held = {name: morsel.value for name, morsel in browser.cookies.items()}
    text = page(browser, "/account/security").content.decode()
    form = text.partition('name="form" value="')[2].partition('"')[0]
    answer = browser.post("/account/security", {"form": form, "act": "end_acting"}, headers=SAME_ORIGIN)
    assert answer.headers["location"] == f"/admin/accounts/user/{person.pk}/change/"
    assert (answer.cookies["acting"].value, answer.cookies["acting"]["max-age"]) == ("", 0)
    assert said(page(browser, "/oauth/device")) == 0
    for name, value in held.items():
        browser.cookies[name] = value
    gone = page(browser, "/account/security")
    assert (gone.status_code, gone.cookies["acting"]["max-age"]) == (303, 0)


def test_another_session_of_the_browser_is_not_meant(browser: Client, person: User) -> None:
    """Neither with its refresh token, nor with its access token alone, nor after signing out by the API."""
    acting = browser.cookies["acting"].value
    other = Client()
    given = {"email": person.email, "password": PASSWORD, "transport": "cookie"}
    signed_in = other.post("/api/v1/access/signin", given, content_type="application/json", headers=SAME_ORIGIN)
    assert signed_in.status_code == 204
    other.cookies["acting"] = acting
    assert said(page(other, "/oauth/device")) == 0
    del other.cookies["refresh_token"]
    assert said(page(other, "/oauth/device")) == 0
    assert browser.post(LOGOUT, headers=SAME_ORIGIN).status_code == 204
    assert said(page(browser, "/oauth/device")) == 0


@pytest.mark.parametrize("value", ["", "x", "é", "A" * 64, "A" * 4_096, "A" * 4_097])
def test_what_is_no_cookie_of_ours_says_nothing(value: str) -> None:
    """Any other text, a seal with one bit turned, and a whole one of a server with another master key."""
    browser = Client()
    browser.cookies["acting"] = value
    assert said(page(browser, "/oauth/device", **FROM_CLIENT)) == 0


def test_a_changed_seal_says_nothing(browser: Client, settings: Any) -> None:
    """One character changed, or sealed under a master key that this server lacks: nothing; under an older one: told."""
    held = browser.cookies["acting"].value
    middle = len(held) // 2
    browser.cookies["acting"] = held[:middle] + ("A" if held[middle] != "A" else "B") + held[middle + 1 :]
    assert said(page(browser, "/oauth/device")) == 0
    browser.cookies["acting"] = held
    assert said(page(browser, "/oauth/device")) == 1
    kept = settings.IRONAUTH_MASTER_KEYS
    newer = {f"k{new_id().hex[:6]}": b"n" * 32}
    settings.IRONAUTH_MASTER_KEYS = {**newer, **kept}
    assert said(page(browser, "/oauth/device")) == 1
    settings.IRONAUTH_MASTER_KEYS = newer
    assert said(page(browser, "/oauth/device")) == 0
