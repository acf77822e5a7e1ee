"""The watch over pages: it finds what it is there for, and nothing in a page that is sound."""

import secrets

import pytest
from playwright.async_api import Browser, Route

from ironauth.tests.browser.watched import MOST_BYTES, Watched
from ironauth.tests.canary_hooks import watched

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ORIGIN = "http://localhost:1"  # nothing listens there: every answer is the test's own
SOUND = (
    '<!DOCTYPE html><html lang="en"><head><title>A page</title></head><body><main><h1>A page</h1></main></body></html>'
)
#: What makes a page unsound, and how it is reported.
FAULTS = {
    "<script>document.title = 'inline'</script>": "Content Security Policy",
    '<img alt="" src="https://elsewhere.example/pixel.png">': "asked another host: https://elsewhere.example/pixel.png",
    '<img alt="" src="/missing.png">': "console: Failed to load resource: the server responded with a status of 404",
    '<img alt="" src="/broken.png">': f"500 from {ORIGIN}/broken.png",
    '<script src="/thrown.js"></script>': "uncaught: thrown",
    '<svg width="1281" height="9" aria-hidden="true"></svg>': "at 1280 px, light: scrolls sideways",
    "<input>": "at 390 px, dark: label, Form elements must have labels",
}


async def answer(route: Route) -> None:
    """Answer in the place of a server."""
    path = route.request.url.removeprefix(ORIGIN)
    if path in {"/sound", "/unsound"}:
        body = SOUND.replace("</main>", "".join(FAULTS) + "</main>") if path == "/unsound" else SOUND
        policy = {"Content-Security-Policy": "default-src 'self'; img-src *"}
        await route.fulfill(body=body, content_type="text/html", headers=policy)
    elif path == "/thrown.js":
        await route.fulfill(body="throw new Error('thrown')", content_type="text/javascript")
    else:
        await route.fulfill(status=500 if path == "/broken.png" else 404)


async def test_what_is_wrong_is_found(chromium: Browser) -> None:
    """Each fault is reported, and a page without any is left in peace."""
    page = await chromium.new_page()
    await page.route("**/*", answer)
    shown = Watched(page, ORIGIN)
    await shown.go("/sound")
    await shown.look("sound")
    assert shown.faults == []
    await shown.go("/unsound")
    await shown.look("unsound")
    unreported = [fault for fault in FAULTS.values() if not any(fault in found for found in shown.faults)]
    assert not unreported, shown.faults
    await page.context.close()


async def test_a_refusal_may_be_expected(chromium: Browser) -> None:
    """Within its block and with its status only; one that does not come is a failure."""
    page = await chromium.new_page()
    await page.route("**/*", lambda route: route.fulfill(status=400, body="<p>No.</p>", content_type="text/html"))
    shown = Watched(page, ORIGIN)
    with shown.refusing(400):
        await shown.go("/expected")
    assert shown.faults == []
    await shown.go("/unexpected")
    assert len(shown.faults) == 1
    with pytest.raises(AssertionError, match="not refused"), shown.refusing(401):
        await shown.go("/other")
    await page.context.close()


async def test_what_is_typed_is_heard(chromium: Browser) -> None:
    """What a form sends and what cookies hold are secrets of the test, which nothing may keep."""
    page = await chromium.new_page()
    heard = [f"{name}-{secrets.token_hex(8)}" for name in ("typed", "cookie")]
    form = f'<form method="post" action="/sent"><input name="password" value="{heard[0]}"></form>'
    cookie = {"Set-Cookie": f"sessionid={heard[1]}"}
    await page.route("**/*", lambda route: route.fulfill(body=SOUND, content_type="text/html", headers=cookie))
    shown = Watched(page, ORIGIN)
    await shown.go("/sound")
    await page.set_content(form)
    await page.locator("input").press("Enter")
    await page.wait_for_url("**/sent")
    await shown.look("sound")
    assert not [one for one in heard if one not in watched.needles]
    await page.context.close()


@pytest.mark.parametrize(("more", "faults"), [(0, 0), (1, 1)])
async def test_a_heavy_page_is_found(chromium: Browser, more: int, faults: int) -> None:
    """HTML, style and scripts together, those that a script imports too: 60,000 bytes, and not one more."""
    page = await chromium.new_page()
    html = SOUND.replace("</head>", '<script type="module" src="/a.js"></script></head>')
    files = {"/a.js": 'import "./b.js";', "/b.js": "1;" * 5_000}
    rest = MOST_BYTES - len(html.encode()) - sum(map(len, files.values())) + more
    files["/"] = html.replace("</main>", " " * rest + "</main>")

    async def answer(route: Route) -> None:
        path = route.request.url.removeprefix(ORIGIN)
        kind = "text/javascript" if path.endswith(".js") else "text/html"
        await route.fulfill(body=files[path], content_type=kind)

    await page.route("**/*", answer)
    shown = Watched(page, ORIGIN)
    await shown.go("/")
    await shown.look("heavy")
    assert [fault for fault in shown.faults if "bytes of HTML" in fault] == shown.faults
    assert len(shown.faults) == faults, shown.faults
    await page.context.close()


@pytest.mark.parametrize(("colour", "size", "faults"), [("#767676", 16, 0), ("#777777", 16, 1), ("#777777", 24, 0)])
async def test_faint_text_is_found_without_scripts(chromium: Browser, colour: str, size: int, faults: int) -> None:
    """A contrast of 4.54 on white will do, 4.48 only for large text, as WCAG 2.2 has it."""
    context = await chromium.new_context(java_script_enabled=False)
    page = await context.new_page()
    text = f'<main style="background: #fff"><p style="color: {colour}; font-size: {size}px">Faint</p>'
    await page.route("**/*", lambda route: route.fulfill(body=SOUND.replace("<main>", text), content_type="text/html"))
    shown = Watched(page, ORIGIN, ((390, 844, "dark"),), scripts=False)
    await shown.go("/")
    await shown.look("faint")
    assert [fault.partition(": ")[0] for fault in shown.faults] == ["faint at 390 px, dark"] * faults, shown.faults
    await context.close()


async def test_the_same_page_is_judged_once(chromium: Browser) -> None:
    """Where asked for: another person's page is the same one, a page with another field is not."""
    page = await chromium.new_page()
    shown = Watched(page, ORIGIN, ((390, 844, "dark"),))
    shown.judged = set()
    fields = ['<p>person7</p><input value="a">', '<p>person8</p><input value="b">', "<p>person8</p><input><input>"]
    found = []
    for one in fields:
        await page.set_content(SOUND.replace("</main>", f"{one}</main>"))
        await shown.look("fields")
        found.append(sum("label" in fault for fault in shown.faults))
    assert found == [1, 1, 2], shown.faults
    await page.close()
