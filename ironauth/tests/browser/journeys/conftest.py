"""The stage of all journeys, and a person before a browser of one look."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from ironauth.tests.browser.journeys.look import Look
from ironauth.tests.browser.journeys.registry import JOURNEYS
from ironauth.tests.browser.journeys.stage import Stage, set_up
from ironauth.tests.browser.journeys.walker import Walker
from ironauth.tests.browser.watched import Watched


@pytest.fixture(scope="session")
def stage(django_db_setup: Any, chromium_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One site for all journeys."""
    with set_up(tmp_path_factory.mktemp("journeys")) as found:
        yield found


@pytest.fixture(scope="session")
def windows() -> dict[Look, Watched]:
    """Windows that stay open from one walk to the next, for a browser takes a second to open another."""
    return {}


async def opened(chromium: Browser, stage: Stage, look: Look) -> Watched:
    """Open a window of this look."""
    context = await chromium.new_context(
        locale="de-DE" if look.language == "de" else "en-GB",
        timezone_id="UTC",
        java_script_enabled=look.scripts,
        viewport={"width": look.width, "height": look.height},
        color_scheme=look.theme,
    )
    views = ((look.width, look.height, look.theme),)
    shown = Watched(await context.new_page(), stage.origin, views, scripts=look.scripts)
    shown.elsewhere |= {stage.wiki, *filter(None, [stage.issuer])}
    await shown.page.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(content_type="text/css"))
    shown.judged = stage.judged[look]
    return shown


@pytest_asyncio.fixture(loop_scope="session")
async def walker(
    chromium: Browser, stage: Stage, windows: dict[Look, Watched], name: str, look: Look
) -> AsyncIterator[Walker]:
    """Somebody before a browser of this look that knows nobody; the test fails for what was wrong with any page."""
    keeps_passkeys = JOURNEYS[name].needs_scripts
    shown = None if keeps_passkeys else windows.pop(look, None)
    if shown is None:
        shown = await opened(chromium, stage, look)
    await shown.page.context.clear_cookies()
    yield Walker(shown, look, stage, name)
    shown.origin = stage.origin  # where a walk went on at another server
    theirs = stage.issuer or "-"  # the pages of another provider are its own
    faults = [fault for fault in shown.faults if not fault.startswith(theirs)]
    if keeps_passkeys or faults or shown.refuses:
        await shown.page.context.close()
    else:
        shown.faults.clear()
        windows[look] = shown
    assert not faults, "\n".join(faults)
