"""A page that is watched: whatever a browser has to complain about is a fault of the test that opened it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import ConsoleMessage, Page, Request, Response, expect

from ironauth.tests.browser.chromium import PATIENCE_MS
from ironauth.tests.canary_hooks import watched

Views = tuple[tuple[int, int, Literal["dark", "light"]], ...]
#: Width, height and colours a page is looked at in: a phone at night, and a desktop.
VIEWS: Views = ((390, 844, "dark"), (1280, 900, "light"))
#: What keeps people out (WCAG 2.2 A and AA), and what makes a page hard to find one's way in.
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: Less this, which is Django's own markup of lists and forms: a search field whose title is its only label, headings of
#: columns without a word, and a name for an icon that may have none.
LEFT_OUT: Final = ("label-title-only", "empty-table-header", "aria-prohibited-attr")
#: How Chromium reports an answer of 400 or more.
REFUSED: Final = re.compile(r"Failed to load resource: the server responded with a status of (\d{3})")
#: What sticks out of a page to the right, if anything: the innermost elements, some of them.
TOO_WIDE: Final = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > width + 1);
  const named = (one) => `${one.localName}#${one.id}.${one.className}`;
  return [`${document.documentElement.scrollWidth} px`, ...wide.slice(-3).map(named)];
}"""
#: Waits until what a script does at another width is done, by two frames.
RESIZED: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
#: Colours that are on their way from one theme to the other are judged as they will be.
ARRIVE: Final = "() => document.getAnimations().forEach((animation) => animation.finish())"
#: Asks axe-core, which looks for reasons only where something is wrong and fetches nothing a second time.
FASTER: Final = {"resultTypes": ["violations"], "preload": False}
JUDGE: Final = "(options) => axe.run(options).then((found) => found.violations)"
#: Text that is hard to read (WCAG 2.2, 1.4.3), in a browser without scripts, where axe-core waits without end.
FAINT: Final = """() => {
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parts = (colour) => {
    pixel.clearRect(0, 0, 1, 1); pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, under) => top.map((part, at) => (part * top[3] + under[at] * (255 - top[3])) / 255);
  const behind = (one) => one === null ? parts(matchMedia("(prefers-color-scheme: dark)").matches ? "#000" : "#fff")
    : over(parts(getComputedStyle(one).backgroundColor), behind(one.parentElement));
  const light = (colour) => colour.slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement, text = texts.currentNode.data.trim();
    if (!text || !one.checkVisibility({ visibilityProperty: true }) || one.closest(":disabled, noscript")) continue;
    const style = getComputedStyle(one), size = parseFloat(style.fontSize), ground = behind(one);
    const [low, high] = [light(ground), light(over(parts(style.color), ground))].sort((a, b) => a - b);
    const least = size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5;
    const found = (high + 0.05) / (low + 0.05);
    if (found < least) faint.push(`${text.slice(0, 40)}: ${found.toFixed(2)} of ${least}`);
  }
  return faint;
}"""
#: What differs in a page from one person to the next: values of fields, options of passkeys, ids, numbers, tokens.
OWN: Final = re.compile(r'(value|data-[a-z-]+)="[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*')
#: Bytes of a page with its style and all its scripts, without the encoding that servers add: a slow phone's second.
MOST_BYTES: Final = 60_000
WEIGHT: Final = """() => performance.getEntries()
  .filter((one) => one.entryType === "navigation" || /\\.(css|js)(\\?|$)/.test(one.name))
  .reduce((sum, one) => sum + (one.decodedBodySize ?? 0), 0)"""
#: What pictures are made of, beside the views in which a page is judged.
COLOURS: Final[tuple[Literal["dark", "light"], ...]] = ("dark", "light")
PICTURED: Final = tuple((width, height, colours) for width, height, _ in VIEWS for colours in COLOURS)
#: A folder to keep pictures of every page in, for somebody to look at.
PICTURES: Final = os.environ.get("IRONAUTH_TEST_SCREENSHOTS", "")

expect.set_options(timeout=PATIENCE_MS)


class Watched:
    """A page on the server at ``origin`` alone, and ``faults``: what was wrong with it so far.

    Attributes:
        elsewhere: Origins of applications that the person is sent to and comes from.
        views: What it is looked at in; ``VIEWS`` where there are none.
        scripts: Whether the page runs scripts, as axe-core has to.
        judged: What axe-core has judged in these views, where it need not judge the same page twice.
        judges_in: The views that axe-core judges the next pages in; all of them where there are none.
    """

    def __init__(self, page: Page, origin: str, views: Views = (), *, scripts: bool = True) -> None:
        self.page = page
        self.origin = origin
        self.views = views
        self.scripts = scripts
        self.judged: set[str] | None = None
        self.judges_in: Views = ()
        self.elsewhere: set[str] = set()
        self.faults: list[str] = []
        self._refused: dict[int, int] | None = None
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._fault(f"uncaught: {error}"))
        page.on("request", self._request)
        page.on("response", self._response)

    def _fault(self, text: str) -> None:
        self.faults.append(f"{self.page.url.partition('?')[0].removeprefix(self.origin)}: {text}")

    def _console(self, message: ConsoleMessage) -> None:
        """Blocked by the policy, a deprecation, an error: a page of ours gives no reason for any of them."""
        refused = REFUSED.match(message.text)
        if refused and self._refused is not None and int(refused[1]) in self._refused:
            self._refused[int(refused[1])] += 1
        elif message.type in {"error", "warning", "assert"}:
            self._fault(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        """Tell the canary what is typed, which no client of this process sends."""
        headers = request.headers
        watched.sent(request.url, headers, request.post_data_buffer or b"", headers.get("content-type", ""))
        known = [f"{origin}/" for origin in (self.origin, *self.elsewhere)]
        if not request.url.startswith((*known, "data:", "blob:")):
            self._fault(f"asked another host: {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self._fault(f"{response.status} from {response.url}")

    @property
    def refuses(self) -> bool:
        """Whether a refusal is expected at this moment: what a test leaves behind that failed there."""
        return self._refused is not None

    @contextmanager
    def refusing(self, *statuses: int) -> Iterator[None]:
        """Expect answers of these statuses, and at least one of each, until the block ends."""
        self._refused = dict.fromkeys(statuses, 0)
        yield
        assert all(self._refused.values()), f"not refused: {self._refused}"
        self._refused = None

    @contextmanager
    def maybe_refusing(self, *statuses: int) -> Iterator[None]:
        """Let answers have these statuses until the block ends; the caller judges which have them."""
        self._refused = dict.fromkeys(statuses, 0)
        yield
        self._refused = None

    async def go(self, path: str) -> None:
        """Open a page of the server, or an address of a message."""
        await self.page.goto(path if path.startswith("http") else f"{self.origin}{path}")

    async def look(self, name: str) -> None:
        """Look at what is shown, in each of its views: nothing sticks out, and everybody can use it."""
        cookies = await self.page.context.cookies()
        watched.cookies(
            {cookie["name"]: cookie["value"] for cookie in cookies if "name" in cookie and "value" in cookie}
        )
        if "/admin/" not in self.page.url:  # Django's own scripts are 295,000 bytes in a list, 88,000 when compressed
            weight = await self.page.evaluate(WEIGHT)
            if not 0 < weight <= MOST_BYTES:
                self._fault(f"{name}: {weight} bytes of HTML, style and scripts, at most {MOST_BYTES}")
        judges = self.scripts and not await self._judged_before()
        if judges:
            await self.page.evaluate(AXE_SCRIPT)
        for width, height, colours in self.views or VIEWS:
            judged = judges and (not self.judges_in or (width, height, colours) in self.judges_in)
            await self._turn(width, height, colours)
            seen = f"{name} at {width} px, {colours}"
            wide = await self.page.evaluate(TOO_WIDE)
            if wide:
                self._fault(f"{seen}: scrolls sideways, {wide}")
            if not self.scripts:
                self.faults.extend(f"{seen}: faint, {one}" for one in await self.page.evaluate(FAINT))
            if judged:
                await self._judge(seen)
        if PICTURES and not self.views:
            await self._photograph(name)
        elif PICTURES:
            await self.page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)

    async def _judge(self, seen: str) -> None:
        """Let axe-core judge the page."""
        left_out = LEFT_OUT if "/admin/" in self.page.url else ()
        options = {"runOnly": RULES, "rules": {rule: {"enabled": False} for rule in left_out}, **FASTER}
        for violation in await self.page.evaluate(JUDGE, options):
            where = [node["html"][:160] for node in violation["nodes"][:3]]
            why = violation["nodes"][0]["failureSummary"].splitlines()[1:3]
            self._fault(f"{seen}: {violation['id']}, {violation['help']}: {where} {why}")

    async def _judged_before(self) -> bool:
        """Tell whether axe-core has judged this page: the same HTML but for names, ids and what is sealed."""
        if self.judged is None:
            return False
        size = len(self.judged)
        self.judged.add(OWN.sub("", await self.page.content()))
        return len(self.judged) == size

    async def _turn(self, width: int, height: int, colours: Literal["light", "dark"]) -> None:
        """Show the page in another size and theme, and wait until it has taken both."""
        await self.page.set_viewport_size({"width": width, "height": height})
        await self.page.emulate_media(color_scheme=colours)
        if self.scripts:
            await self.page.evaluate(RESIZED)
        await self.page.evaluate(ARRIVE)

    async def _photograph(self, name: str) -> None:
        """Keep a picture of what is shown, on a phone and a desktop, by day and at night."""
        for width, height, colours in PICTURED:
            await self._turn(width, height, colours)
            await self.page.screenshot(path=Path(PICTURES) / f"{name}-{width}-{colours}.png", full_page=True)
