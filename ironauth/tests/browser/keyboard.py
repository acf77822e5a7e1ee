"""Goes through a page by the Tab key, as people without a mouse do, and collects what keeps them from using it."""

from typing import Any, Final

from playwright.async_api import Page

#: Notes what the key should reach, in the order in which the page is read; returns how much that is.
NOTE: Final = """() => {
  const can = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  window.stops = [...document.querySelectorAll(can)].filter((one) =>
    !one.matches(":disabled") && one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }));
  return window.stops.length;
}"""
#: What is reached now: its place (-1: nothing of the page), what it is, whether it has a ring, and whether it is seen.
REACHED: Final = """() => {
  const one = document.activeElement;
  const place = window.stops.indexOf(one);
  if (place < 0) return { place };
  const ringed = [one, one.closest("li")].filter(Boolean).map((part) => getComputedStyle(part))
    .some((look) => look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2);
  const box = one.getBoundingClientRect();
  const [x, y] = [box.x + Math.min(box.width / 2, 20), box.y + box.height / 2];
  const above = document.elementFromPoint(x, y);
  const seen = above !== null && (one.contains(above) || above.contains(one) || above.control === one);
  const words = one.getAttribute("aria-label") || one.textContent.trim() || one.name || one.id;
  return { place, ringed, seen, what: `${one.localName} ${words.slice(0, 40)}` };
}"""
#: The page begins with what one came for, and needs no link that skips the rest; a banner has one stop at most.
BEGINS: Final = """() => {
  const first = window.stops.find((one) => !one.closest(".acting"));
  const before = window.stops.filter((one) => one.closest(".acting")).length;
  return before <= 1 && (!first || first.closest("main") !== null || document.querySelector("main").contains(first));
}"""


async def faults_by_keyboard(page: Page) -> list[str]:
    """Press Tab until everything has been reached, and return what was wrong, in words; empty for a good page."""
    wanted = await page.evaluate(NOTE)
    found = [] if await page.evaluate(BEGINS) else ["something stands before what one came for"]
    reached: dict[int, dict[str, Any]] = {}
    before = -1
    for _ in range(wanted + 2):  # once past the end
        await page.keyboard.press("Tab")
        now = await page.evaluate(REACHED)
        place = now["place"]
        if place >= 0:
            if before >= 0 and place not in (before + 1, 0):
                found.append(f"{now['what']}: out of order")
            reached[place] = now
        before = place
    if len(reached) < wanted:
        found.append(f"{wanted - len(reached)} of {wanted} not reached")
    for one in reached.values():
        found += [f"{one['what']}: no ring around it"] if not one["ringed"] else []
        found += [f"{one['what']}: not in view"] if not one["seen"] else []
    return found
