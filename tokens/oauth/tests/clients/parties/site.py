"""A site of an application, and a person's browser there that goes over our pages and back."""

import asyncio
import re
import time
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

import httpx
from django.test import override_settings

from ironauth import settings_test
from tokens.oauth.tests.clients.default.libraries import REFRESHED, SIGNED_IN, SIGNED_OUT, TOLD, Library
from tokens.oauth.tests.clients.default.ran import NETWORKS
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.walk import forms

MOST_STEPS: Final = 12
PATIENCE_S: Final = 60.0  # on a machine with everything else to do
#: Headers in which a site says who is signed in, and by which tokens.
EMAIL: Final = "X-Email"
TOKEN: Final = "X-Token"
REFRESH_TOKEN: Final = "X-Refresh-Token"


class Site:
    """A site at a port of this machine.

    Attributes:
        provider: Where its people sign in.
        port: Its port.
        origin: Its address.
        asked: The last link to the provider.
        answered: Where the provider's last answer led.
    """

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.port = settings_test._free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        self.asked = self.answered = ""

    async def client(self, callback: str, gone: str, told: str, *more: str) -> dict[str, str]:
        """Make the site's client by the README's line.

        Args:
            callback: Where it is answered at.
            gone: Where people come back to who have signed out.
            told: Where it hears of sign-outs.
            more: Further options.
        """
        places = ("--post-logout-redirect-uri", self.origin + gone, "--backchannel-logout-uri", self.origin + told)
        with override_settings(DEBUG=True, IRONAUTH_LOGOUT_NETWORKS=[NETWORKS]):
            return await self.provider.default_client(self.origin + callback, *places, *more)

    async def come(self, path: str) -> httpx.Response:
        """Open a page of the site, over our pages where it leads there; return what the person sees at last."""
        return await self._followed(await self.provider.person.browser.get(self.origin + path))

    async def leave(self, path: str) -> httpx.Response:
        """Sign out of the site, by its form where it has one."""
        page = await self.come(path)
        shown = page.headers.get("content-type", "").startswith("text/html")
        for form in forms(page) if shown else []:
            sent = await self.provider.person.browser.post(urljoin(str(page.url), form.action), data=form.fields)
            page = await self._followed(sent)
        return page

    async def _followed(self, answer: httpx.Response) -> httpx.Response:
        person = self.provider.person
        for _ in range(MOST_STEPS):
            location = answer.headers.get("location")
            if not location:
                return answer
            where = urljoin(str(answer.url), location)
            if where.startswith(self.provider.issuer):
                self.asked = where
                where = self.answered = await person.visit(where, ends=re.compile(re.escape(self.origin)))
            answer = await person.browser.get(where)
        raise AssertionError(f"{self.origin} leads round and round: {answer.headers['location']}")

    async def known(self) -> httpx.Response | None:
        """Return the person's page; None when the site does not know them and sends them to sign in."""
        answer = await self.provider.person.browser.get(f"{self.origin}/me")
        return answer if EMAIL in answer.headers else None

    async def forgets(self) -> bool:
        """Wait until the site does not know the person."""
        deadline = time.monotonic() + PATIENCE_S
        while await self.known() is not None:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.2)
        return True

    async def sign_in(self) -> httpx.Response:
        """Sign in from the person's page; return it."""
        page = await self.come("/me")
        assert page.headers.get(EMAIL) == self.provider.person.email, f"{page.url}: {page.status_code} {page.text}"
        return page


async def walked(site: Site, library: Library, refresh: str, leave: str, gone: str) -> list[str]:
    """Do at a site all that people do; return the steps that passed.

    Args:
        site: A site that runs.
        library: What it is made with.
        refresh: Where it renews its tokens; what has ``{token}`` gets the access token.
        leave: Where people sign out.
        gone: Where they come back to.
    """
    first = await site.sign_in()
    steps = [SIGNED_IN]
    async with httpx.AsyncClient(timeout=30) as stranger:
        await stranger.get(site.answered)
        assert EMAIL not in (await stranger.get(f"{site.origin}/me")).headers
    steps.append(library.refused)
    page = await site.come(refresh.replace("{token}", first.headers[TOKEN]))
    assert page.status_code == HTTPStatus.OK, page.text
    renewed = await site.known()
    assert renewed is not None
    assert renewed.headers[TOKEN] != first.headers[TOKEN]
    steps.append(REFRESHED)
    page = await site.leave(leave)
    assert str(page.url).split("?", maxsplit=1)[0] == site.origin + gone
    assert await site.known() is None
    steps.append(SIGNED_OUT)
    await site.sign_in()
    await site.provider.person.sign_out()
    assert await site.forgets()
    steps.append(TOLD)
    return steps
