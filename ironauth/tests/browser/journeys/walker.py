"""A person on the way through pages: types into fields by their names, presses buttons, and looks at every page."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final
from urllib.parse import urlencode

import httpx
from playwright.async_api import Locator, expect

from accounts.pages import meter
from conftest import PASSWORD, bearer
from ironauth.tests.browser.journeys.look import Look
from ironauth.tests.browser.journeys.stage import Stage
from ironauth.tests.browser.test_oauth import arrived
from ironauth.tests.browser.watched import Watched
from tokens.oauth.tests.clients.program import node
from tokens.oauth.tests.walk import CHALLENGE
from tokens.tests.second_factor import App, enrol

ACCOUNT: Final = "/account/security"
DIGITS: Final = re.compile(r"^([0-9]{6})\s*$", re.MULTILINE)
LINK: Final = re.compile(r"^(http\S+\?token=\S+)$", re.MULTILINE)


class Walker:
    """Somebody with an account, before a browser of one look that knows nobody yet.

    Attributes:
        email: The address; the password is PASSWORD.
        newcomer: An address without an account.
    """

    def __init__(self, shown: Watched, look: Look, stage: Stage, name: str) -> None:
        self.shown, self.look, self.stage, self.name = shown, look, stage, name
        self.page = shown.page
        self.email = stage.person()
        self.newcomer = self.email.replace("person", "newcomer")
        self.seen = 0

    @contextmanager
    def at_site(self, **settings: str) -> Iterator[None]:
        """Be at a server with other settings, before the same database, until the block ends.

        Args:
            settings: Environment variables.
        """
        with self.stage.beside(**settings) as self.shown.origin:
            yield
        self.shown.origin = self.stage.origin

    async def open(self, path: str, status: int = 200) -> None:
        """Open a page of the site, or a link of a message."""
        with self._refusing(status):
            await self.shown.go(path)

    async def see(self, heading: str = "") -> None:
        """Look at the page; it is in the language of the browser.

        Args:
            heading: What to expect as the heading, where it is the same in every language.
        """
        self.seen += 1
        title = self.page.get_by_role("heading", level=1)
        await expect(title).to_be_visible()
        if heading:
            await expect(title).to_have_text(heading)
        if "/admin/" not in self.page.url:
            await expect(self.page.locator("html")).to_have_attribute("lang", self.look.language)
        await self.shown.look(f"{self.name}-{self.seen:02}-{self.look}")

    async def send(self, status: int = 200, **typed: str) -> None:
        """Type into the fields of these names, of one form, and press the first button of that form that sends it.

        Buttons before it are not pressed that only judge a password, or send another form.
        """
        form = self.page.locator("form", has=self.page.locator(f"[name={next(iter(typed))}]:visible")).first
        for name, text in typed.items():
            field = form.locator(f"[name={name}]")
            await field.fill(text)
            await expect(field).to_have_value(text)
        await self.press(form.locator(f"[type=submit]:not([name={meter.FIELD}]):not([form]):visible").first, status)

    async def press(self, what: str | Locator, status: int = 200) -> None:
        """Press a button or follow a link, to another page."""
        button = self.page.locator(what).first if isinstance(what, str) else what
        with self._refusing(status):
            async with self.page.expect_navigation():
                await button.click()

    def _refusing(self, status: int) -> AbstractContextManager[None]:
        return self.shown.refusing(status) if status >= 400 else nullcontext()

    def form(self, action: str) -> str:
        """Return the selector of the buttons of forms that lead to a path, or to it with more behind it."""
        return f"form[action$='{action}'] button[type=submit]:visible"

    def act(self, value: str) -> Locator:
        """Return the button of an act on a page of the account."""
        form = self.page.locator("form", has=self.page.locator(f"[name=act][value={value}]"))
        return form.locator("button[type=submit]:visible").first

    async def mailed(self, pattern: re.Pattern[str], to: str = "") -> str:
        """Return the code or link of the oldest message with one that has not been read."""
        return await self.stage.mail.search(to or self.email, pattern)

    async def arrive(self, **expected: str) -> dict[str, str]:
        """Wait until the browser is back at the application; what it came with, of which some is expected."""
        came = await arrived(self.shown)
        assert expected.items() <= came.items(), came
        return came

    def needs_provider(self) -> None:
        """Skip the journey, and say what is missing, where no other provider runs."""
        if self.stage.issuer is None:
            node()

    async def at_provider(self, button: Locator, email: str) -> None:
        """Press the button of the other provider, sign in there, and come back."""
        self.needs_provider()
        page = self.page
        await button.click()
        await page.locator("[name=login]").fill(email.partition("@")[0])
        await page.locator("[name=password]").fill("any")
        await page.locator("[type=submit]").first.click()
        await page.locator("form[action*=consent], form").locator("[type=submit]").first.click()
        await page.wait_for_url(lambda url: str(url).startswith(self.stage.origin))

    async def home(self, email: str = "") -> None:
        """See the page of one's account."""
        await expect(self.page.locator("form.who > span")).to_have_text(email or self.email)
        await self.see()

    async def sign_in(self, email: str = "", code: str = "") -> None:
        """Be at the page of one's account, by password and a code where one is asked for."""
        await self.open("/account/signin")
        await self.send(email=email or self.email, password=PASSWORD)
        if code:
            await self.send(code=code)
        await expect(self.page.locator("form.who > span")).to_have_text(email or self.email)

    async def sign_out(self) -> None:
        """Leave the page of one's account."""
        await self.open(ACCOUNT)
        await self.press("form.who button")

    async def row(self, slug: str) -> None:
        """Open a row of the account by its link, and see it."""
        await self.open(ACCOUNT)
        await self.press(f"a[href='{ACCOUNT}/{slug}']")
        await self.see()

    async def done(self) -> None:
        """See what an act has done, said where it is seen."""
        await expect(self.page.locator(".done")).to_be_in_viewport()
        await self.see()

    async def refused(self) -> None:
        """See why an act was refused, said where it is seen."""
        said = self.page.locator(".reasons:visible, [role=alert]:visible").first
        await expect(said).not_to_be_empty()
        await expect(said).to_be_in_viewport()
        await self.see()

    async def tokens(self, api: httpx.AsyncClient, email: str = "") -> dict[str, str]:
        """Sign in by the API."""
        known = {"email": email or self.email, "password": PASSWORD}
        answer = await api.post("/api/v1/access/signin", json=known)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def with_app(self, email: str = "") -> tuple[App, list[str]]:
        """Have an authenticator app; return it and the recovery codes."""
        async with self.stage.api() as api:
            return await enrol(api, await self.tokens(api, email))

    async def bearer(self, api: httpx.AsyncClient, email: str) -> dict[str, str]:
        """Return the header of somebody who asks the API."""
        return bearer(await self.tokens(api, email))

    def link(self, **more: str) -> str:
        """Return where the application sends a browser that is to sign in."""
        asked = {
            "client_id": self.stage.client,
            "redirect_uri": f"{self.stage.wiki}/callback",
            "response_type": "code",
            "scope": "openid profile email",
            "state": "st&te=1 é",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **more,
        }
        return f"/oauth/authorize?{urlencode(asked)}"
