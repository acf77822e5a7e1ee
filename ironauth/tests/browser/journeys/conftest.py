"""The stage of all journeys, and a person before a browser of one look."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from ironauth.tests.browser.journeys.look import Look
from ironauth.tests.browser.journeys.stage import Stage, set_up
from ironauth.tests.browser.journeys.walker import Walker
from ironauth.tests.browser.watched import Watched


@pytest.fixture(scope="session")
def stage(django_db_setup: Any, chromium_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One site for all journeys."""
    with set_up(tmp_path_factory.mktemp("journeys")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def walker(chromium: Browser, stage: Stage, name: str, look: Look) -> AsyncIterator[Walker]:
    """Somebody before a browser of this look; the test fails for what was wrong with any page."""
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
    yield Walker(shown, look, stage, name)
    await context.close()
    theirs = stage.issuer or "-"  # the pages of another provider are its own
    faults = [fault for fault in shown.faults if not fault.startswith(theirs)]
    assert not faults, "\n".join(faults)
