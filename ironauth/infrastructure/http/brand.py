"""What pages and messages show of the operator, and the accent colour made readable (WCAG 2.2 §1.4.3).

Templates get it by ``{% load brand %}{% brand as brand %}`` (``ironauth.settings``).
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from django import template
from django.conf import settings
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning
from django.http import HttpRequest
from django.utils.safestring import mark_safe
from django.utils.translation import get_language

from ironauth.config.cookies import Cookie
from ironauth.infrastructure.http import client_context, cookies

#: What links stand on where it is closest to them: a row under the pointer, in ``ironauth/static/ironauth/pages.css``.
LIGHT: Final = "#eef1f4"
DARK: Final = "#202a35"
#: Contrast of text with what is behind it (WCAG 2.2 §1.4.3).
LEAST_CONTRAST: Final = 4.5
_STEPS: Final = 40

register = template.Library()
_banners: Final[list[tuple[Cookie, Callable[[HttpRequest], str]]]] = []


class Brand(NamedTuple):
    """What templates see as ``brand``."""

    name: str
    logo: str
    style: str
    support_url: str
    terms_url: str
    privacy_url: str
    accent: str
    on_accent: str
    link: str
    link_at_night: str
    welcome: str
    footer: str
    #: Whether the operator has given a name, a logo or a colour of their own: then the pages are for their customers.
    is_set: bool


class Shades(NamedTuple):
    """The accent, the colour of text on it, and the shades of it for links on a light and on a dark page."""

    accent: str
    on_accent: str
    on_light: str
    on_dark: str


@register.simple_tag(name="brand")
def current() -> Brand:
    """Return the brand as the settings have it."""
    colours = shades(settings.IRONAUTH_BRAND_ACCENT or "#0b57a4")
    return Brand(
        name=settings.IRONAUTH_BRAND_NAME,
        logo=settings.IRONAUTH_BRAND_LOGO,
        style=_version(style()) if settings.IRONAUTH_BRAND_ACCENT else "",
        support_url=settings.IRONAUTH_SUPPORT_URL,
        terms_url=settings.IRONAUTH_TERMS_URL,
        privacy_url=settings.IRONAUTH_PRIVACY_URL,
        accent=colours.accent,
        on_accent=colours.on_accent,
        link=colours.on_light,
        link_at_night=colours.on_dark,
        welcome=own_text(settings.IRONAUTH_BRAND_WELCOME),
        footer=own_text(settings.IRONAUTH_BRAND_FOOTER),
        is_set=_is_set(),
    )


def _is_set() -> bool:
    """Tell whether there is a brand beside the name that every server has, the host of its address."""
    is_named = urlsplit(settings.IRONAUTH_ISSUER).netloc != settings.IRONAUTH_BRAND_NAME
    return is_named or bool(settings.IRONAUTH_BRAND_LOGO or settings.IRONAUTH_BRAND_ACCENT)


def own_text(texts: Mapping[str, str]) -> str:
    """Return a text of the operator in the language of what is written now, else in English, else the first there is.

    Args:
        texts: By language; "" is every one.
    """
    return texts.get(get_language() or "") or texts.get("en") or next(iter(texts.values()), "")


@register.simple_tag(name="banner")
def _banner() -> str:
    return mark_safe(banner())  # noqa: S308 - made by templates


def banner() -> str:
    """Return the HTML of what a page says above everything else to the browser that asked for it; mostly nothing."""
    request = client_context.page_request()
    if request is None:
        return ""
    try:
        brought = request.COOKIES
    except cookies.AmbiguousCookies:  # of the page that tells about them
        return ""
    return "".join([tell(request) for cookie, tell in _banners if cookies.name_of(cookie) in brought])


def register_banner(cookie: Cookie, tell: Callable[[HttpRequest], str]) -> None:
    """Declare what pages say to browsers that bring a cookie; others cost nothing.

    Args:
        cookie: One of the registry.
        tell: Gets the request and returns safe HTML; asks no database, for it runs on the event loop.
    """
    _banners[:] = [one for one in _banners if one[0] != cookie] + [(cookie, tell)]


def style() -> str:
    """Return the style sheet with the accent; pages link it where one is set."""
    found = shades(settings.IRONAUTH_BRAND_ACCENT or "#0b57a4")
    button = f"--accent: {found.accent}; --on-accent: {found.on_accent};"
    return (
        f":root {{ {button} --link: {found.on_light}; }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {button} --link: {found.on_dark}; }} }}\n"
    )


@lru_cache(maxsize=8)
def shades(accent: str) -> Shades:
    """Return the shades of a colour ``#rrggbb``."""
    on_accent = max(("#ffffff", "#000000"), key=lambda text: contrast(text, accent))
    return Shades(accent, on_accent, _readable(accent, LIGHT, "#000000"), _readable(accent, DARK, "#ffffff"))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.2).

    Args:
        one: A colour as ``#rrggbb``.
        other: A colour as ``#rrggbb``.
    """
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def check_accent(**_: object) -> list[CheckMessage]:
    """Return a warning where links need another shade of the accent than the one that is set."""
    accent = settings.IRONAUTH_BRAND_ACCENT
    if not accent or contrast(accent, LIGHT) >= LEAST_CONTRAST:
        return []
    said = f"IRONAUTH_BRAND_ACCENT has a contrast of {contrast(accent, LIGHT):.1f} with the page, links need 4.5."
    hint = f"Links get {shades(accent).on_light} instead; set a colour as dark as that to have them alike."
    return [CheckWarning(said, hint=hint, id="ironauth.W002")]


def _readable(colour: str, background: str, end: str) -> str:
    """Return the colour, moved towards ``end`` until it can be read."""
    for step in range(_STEPS + 1):
        moved = _mixed(colour, end, step / _STEPS)
        if contrast(moved, background) >= LEAST_CONTRAST:
            return moved
    return end


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _mixed(one: str, other: str, share: float) -> str:
    pairs = zip(_parts(one), _parts(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _luminance(colour: str) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - sRGB, IEC 61966-2-1
        for value in (part / 255 for part in _parts(colour))
    ]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _version(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
