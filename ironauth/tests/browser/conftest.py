"""A browser for the run, and for each test a live server, the mail it sends and pages that are watched."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from accounts.tests.mail_files import MailFiles
from conftest import ServeProcess
from ironauth import settings_test
from ironauth.tests.browser.chromium import find_chromium, running_chromium
from ironauth.tests.browser.watched import Watched
from ironauth.tests.services import BinaryMissing


class Site(NamedTuple):
    """A server as people reach it, and its mail."""

    origin: str
    mail: MailFiles


OpenSite = Callable[..., Site]
OpenPage = Callable[..., Awaitable[Watched]]


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where the browser is; without one the test is skipped, but never where nothing may be."""
    try:
        return find_chromium()
    except BinaryMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(chromium_path: str) -> AsyncIterator[Browser]:
    """One browser for all tests; each gets profiles of its own in it."""
    async with running_chromium(chromium_path) as browser:
        yield browser


@pytest.fixture
def open_site(chromium_path: str, serve_process: ServeProcess, signing_key: str, tmp_path: Path) -> OpenSite:
    """A starter of servers under the name that browsers let passkeys be used with, with mail in files."""

    def start(port: int = 0, **environment: str) -> Site:
        port = port or settings_test._free_port()
        site = Site(f"http://localhost:{port}", MailFiles(tmp_path / f"mail-{port}"))
        serve_process(port=port, IRONAUTH_ISSUER=site.origin, EMAIL_URL=site.mail.url, **environment)
        return site

    return start


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(chromium: Browser) -> AsyncIterator[OpenPage]:
    """An opener of pages, each in a new profile; the test fails for what was wrong with any."""
    opened: list[Watched] = []

    async def new(site: Site, locale: str = "en-GB", *, scripts: bool = True) -> Watched:
        context = await chromium.new_context(locale=locale, timezone_id="UTC", java_script_enabled=scripts)
        opened.append(Watched(await context.new_page(), site.origin))
        return opened[-1]

    yield new
    for watched in opened:
        await watched.page.context.close()
    faults = [fault for watched in opened for fault in watched.faults]
    assert not faults, "\n".join(faults)
