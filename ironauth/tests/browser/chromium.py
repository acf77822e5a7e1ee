"""The system's own Chromium: where it is, and how it is started. Nothing is downloaded."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from ironauth.tests.services import BinaryMissing

#: The programs that will do; .ci/find-browser looks for the same.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: No graphics card is needed, and nothing is asked of anybody but the server under test. Playwright adds by itself: an
#: empty profile, no first run, no background requests, no updates, no sandbox (which root cannot have).
FLAGS = ("--headless=new", "--disable-gpu", "--disable-quic", "--disable-sync")
#: Milliseconds that anything awaited on a page may take on a busy machine.
PATIENCE_MS = 20_000


def find_chromium() -> str:
    """Return the path of the browser.

    Raises:
        BinaryMissing: none is installed.

    """
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise BinaryMissing("Chromium is not installed: apt-get install chromium")


@asynccontextmanager
async def running_chromium(path: str) -> AsyncIterator[Browser]:
    """Run the browser at ``path`` without a window."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=list(FLAGS), timeout=PATIENCE_MS * 3)
        yield browser
        await browser.close()


class Authenticator(NamedTuple):
    """Keeps passkeys for a page's browser. Nobody touches it, but where ``touched`` says that somebody does."""

    devtools: CDPSession
    id: str

    @asynccontextmanager
    async def touched(self) -> AsyncIterator[None]:
        """Have the owner answer what asks for a passkey, at once. What has asked before goes on waiting."""
        await self._answers(True)
        yield
        await self._answers(False)

    async def _answers(self, enabled: bool) -> None:
        asked = {"authenticatorId": self.id, "enabled": enabled}
        await self.devtools.send("WebAuthn.setAutomaticPresenceSimulation", asked)


#: Notes on the page which kind of question for a passkey was asked last.
_NOTING: Final = """
const get = navigator.credentials.get.bind(navigator.credentials);
navigator.credentials.get = (asked) => {
  document.documentElement.dataset.asked = asked.mediation ?? "";
  return get(asked);
};
"""


async def plug_in_authenticator(page: Page) -> Authenticator:
    """Give this page's browser an authenticator that keeps passkeys."""
    await page.add_init_script(_NOTING)
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("WebAuthn.enable", {"enableUI": False})
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": False,
    }
    added = await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return Authenticator(devtools, added["authenticatorId"])
