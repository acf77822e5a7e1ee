"""A user agent in a few words, for lists and messages; it is the client's own claim, and lets nobody in."""

import re

#: Product tokens in the order in which they tell: Edge and Opera claim to be Chrome, Chrome claims to be Safari.
_PRODUCTS = (
    ("Edg", "Edge"), ("EdgA", "Edge"), ("EdgiOS", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"), ("CriOS", "Chrome"), ("Chrome", "Chrome"), ("Version", "Safari"),
)  # fmt: skip
#: Systems in the order in which they tell: Android claims to be Linux, the iPhone to be like a Mac.
_SYSTEMS = (
    ("Windows", "Windows"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("CrOS", "ChromeOS"),
    ("Macintosh", "macOS"), ("Linux", "Linux"), ("X11", "Linux"),
)  # fmt: skip
_SHOWN = 40  # characters of an agent that is none of these


def short_name(user_agent: str) -> str:
    """Return e.g. "Firefox 140, Windows", "A browser, Linux", or the beginning of what claims to be no browser."""
    if not user_agent.startswith("Mozilla/"):
        return user_agent[:_SHOWN]
    browser = _browser(user_agent)
    parts = " ".join(browser) if browser else "A browser", _system(user_agent)
    return ", ".join(filter(None, parts))


def kind(user_agent: str) -> str:
    """Return e.g. "Firefox on Windows" or "an application": in our words alone, and the same after an update."""
    name = "an application"
    if user_agent.startswith("Mozilla/"):
        browser = _browser(user_agent)
        name = browser[0] if browser else "a browser"
    system = _system(user_agent)
    return f"{name} on {system}" if system else name


def family(user_agent: str) -> str:
    """Return what tells one kind of client from another, whatever its version: as ``kind``, or a program's own name."""
    return kind(user_agent) if user_agent.startswith("Mozilla/") else user_agent.partition("/")[0]


def _browser(user_agent: str) -> tuple[str, str] | None:
    """Return a known browser's name and version."""
    for token, name in _PRODUCTS:
        if version := re.search(rf"(?:\b|Headless){token}/(\d+)", user_agent):
            return name, version[1]
    return None


def _system(user_agent: str) -> str:
    """Return a known system's name, "" for any other."""
    return next((name for token, name in _SYSTEMS if token in user_agent), "")
