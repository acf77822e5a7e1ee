"""User agents in a few words, for people who look for a device of theirs, and for staff."""

import re

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

_BROWSER = _("a browser")
_APPLICATION = _("an application")
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
#: As lists of sessions name them; a list of its own, since another kind of a browser is a new device (``family``).
_LISTED = (("SamsungBrowser", "Samsung Internet"), *_PRODUCTS)
_SHOWN = 40  # characters of an agent that is none of these


def short_name(user_agent: str) -> str:
    """Return e.g. "Firefox, Windows", or the beginning of what is not a known browser's user agent."""
    if user_agent.startswith("Mozilla/"):
        browser = next((name for token, name in _LISTED if re.search(rf"{token}/\d", user_agent)), "")
        if known := ", ".join(filter(None, (browser, _system(user_agent)))):
            return known
    return user_agent if len(user_agent) <= _SHOWN else f"{user_agent[: _SHOWN - 1]}…"


def parts(user_agent: str) -> tuple[str, str]:
    """Return e.g. "Firefox" and "Windows": in our words alone, and the same after an update; "" for no known system."""
    browser = _APPLICATION
    if user_agent.startswith("Mozilla/"):
        browser = next((name for token, name in _PRODUCTS if re.search(rf"\b{token}/\d", user_agent)), _BROWSER)
    return browser, _system(user_agent)


def kind(user_agent: str) -> str:
    """Return e.g. "Firefox on Windows" or "an application", in English."""
    browser, system = parts(user_agent)
    return f"{browser} on {system}" if system else browser


def described(browser: str, system: str) -> str:
    """Return the same in the language of what is written now.

    Args:
        browser: The first of `parts`.
        system: The second.
    """
    name = gettext(browser)
    return gettext("{browser} on {system}").format(browser=name, system=system) if system else name


def family(user_agent: str) -> str:
    """Return what tells one kind of client from another, whatever its version: as ``kind``, or a program's own name."""
    return kind(user_agent) if user_agent.startswith("Mozilla/") else user_agent.partition("/")[0]


def _system(user_agent: str) -> str:
    """Return the system in our words, "" for none that is known."""
    return next((name for token, name in _SYSTEMS if token in user_agent), "")
