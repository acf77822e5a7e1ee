"""The pages for people in every language, both colours and two widths: accessible, light, nothing sticks out."""

from contextlib import nullcontext
from typing import Final

import pytest
from playwright.async_api import expect

from accounts.pages.acts import ROWS
from conftest import PASSWORD
from ironauth.tests.browser import watched
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.watched import Watched

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

PAGES: Final = {
    "sign-in": "/account/signin",
    "sign-up": "/account/signup",
    "forgot": "/account/forgot",
    "verify-again": "/account/verify-again",
    "stale-link": "/email/verify?token=x",
    "nothing": "/no-such-page",
    "home": "/",
    "device": "/oauth/device",
}
#: Those of somebody who is signed in.
OWN_PAGES: Final = {
    "account": "/account/security",
    **{f"account-{slug}": f"/account/security/{slug}" for slug in ROWS},
}
#: What pages answer that have nothing to give.
REFUSED: Final = {"stale-link": 400, "nothing": 404}


async def sign_in(shown: Watched) -> None:
    """Make an account, and be signed in to it on the pages."""
    ask = shown.page.context.request
    person = {"email": "a-rather-long-address-of-somebody@mail.example.com", "password": PASSWORD}
    made = await ask.post(f"{shown.origin}/api/v1/access/signup", data=person)
    assert made.ok
    opened = await ask.post(f"{shown.origin}/api/v1/access/signin", data={**person, "transport": "cookie"})
    assert opened.ok


@pytest.mark.parametrize("language", ["de", "es"])
async def test_every_page_in_a_language(
    language: str, open_site: OpenSite, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer words fit, on a phone of 320 px too, at night and by day, with an operator's brand; none is heavy."""
    monkeypatch.setattr(watched, "VIEWS", ((320, 640, "dark"), (390, 844, "light"), (1280, 900, "dark")))
    site = open_site(
        IRONAUTH_BRAND_NAME="Acme",
        IRONAUTH_BRAND_ACCENT="#0a7f5a",
        IRONAUTH_SUPPORT_URL="https://example.com/help",
        IRONAUTH_TERMS_URL="https://example.com/terms",
    )
    shown = await open_page(site, locale=language)
    for name, path in PAGES.items():
        with shown.refusing(REFUSED[name]) if name in REFUSED else nullcontext():
            await shown.go(path)
        assert await shown.page.get_attribute("html", "lang") == language
        await shown.look(f"{name}-{language}")
    await sign_in(shown)
    for name, path in OWN_PAGES.items():
        await shown.go(path)
        assert await shown.page.get_attribute("html", "lang") == language
        await shown.look(f"{name}-{language}")


async def test_the_type_of_a_problem_leads_to_the_page_of_its_code(open_site: OpenSite, open_page: OpenPage) -> None:
    """A browser goes on from the list to the code's page; without scripts the list has a link to it there."""
    site = open_site()
    shown = await open_page(site)
    refused = await (await shown.page.context.request.get(f"{site.origin}/api/v1/access/me")).json()
    await shown.go(refused["type"])
    await expect(shown.page).to_have_url(f"{site.origin}/api/errors/not_authenticated")
    await expect(shown.page.locator("pre")).to_contain_text('"status": 401')
    await shown.look("error-code")
    await shown.page.get_by_role("link", name="All error codes").click()
    await shown.look("error-codes")
    plain = await open_page(site, scripts=False)
    await plain.go(refused["type"])
    await plain.page.get_by_role("link", name=refused["code"], exact=True).click()
    await expect(plain.page).to_have_url(f"{site.origin}/api/errors/not_authenticated")
