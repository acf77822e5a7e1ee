"""The pages by the Tab key alone: everything is reached, in order, seen, and has a ring around it."""

from contextlib import nullcontext

import pytest
from playwright.async_api import Browser

from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.keyboard import faults_by_keyboard
from ironauth.tests.browser.test_look import OWN_PAGES, PAGES, REFUSED, sign_in

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

RING = "<style>:focus-visible { outline: 3px solid }</style>"
LINKS = "<main><a href='#a'>One</a> <button>Two</button> <input aria-label='Three'></main>"
BAD = {
    "no ring around it": "<style>:focus-visible { outline: none }</style>" + LINKS,
    "out of order": RING
    + "<main><a href='#' tabindex='3'>1</a> <a href='#' tabindex='2'>2</a> <a href='#' tabindex='1'>3</a></main>",
    "not reached": RING + "<main><a href='#'>One</a> <button tabindex='-1'>Two</button></main>",
    "not in view": RING + "<div style='position: fixed; inset: 0; background: red'></div>" + LINKS,
    "something stands before": RING + "<nav><a href='#'>Elsewhere</a></nav>" + LINKS,
}


@pytest.mark.parametrize("scripts", [True, False])
async def test_every_page_by_keyboard(scripts: bool, open_site: OpenSite, open_page: OpenPage) -> None:
    """On the smallest phone, with what scripts add and without."""
    site = open_site(IRONAUTH_KEEP_DEVICE_DAYS="30", IRONAUTH_SIGN_IN_BY_EMAIL="1")
    shown = await open_page(site, scripts=scripts)
    await shown.page.set_viewport_size({"width": 320, "height": 640})
    found = {}
    for name, path in PAGES.items():
        with shown.refusing(REFUSED[name]) if name in REFUSED else nullcontext():
            await shown.go(path)
        found[name] = await faults_by_keyboard(shown.page)
    await sign_in(shown)
    for name, path in OWN_PAGES.items():
        await shown.go(path)
        found[name] = await faults_by_keyboard(shown.page)
    assert {name: faults for name, faults in found.items() if faults} == {}


@pytest.mark.parametrize("fault", BAD)
async def test_what_keeps_people_out_is_found(fault: str, chromium: Browser) -> None:
    """Each kind of fault on a page that has it, and nothing on one that has none."""
    page = await chromium.new_page()
    await page.set_content(BAD[fault])
    found = await faults_by_keyboard(page)
    assert any(fault in one for one in found), found
    await page.set_content(RING + LINKS)
    assert await faults_by_keyboard(page) == []
    await page.close()
