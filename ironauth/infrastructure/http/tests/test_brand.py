"""The operator's colour is readable whatever it is."""

import httpx
import pytest
from django.conf import settings as live
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from ironauth.config.table import branding
from ironauth.infrastructure.http import brand

ACCENTS = ["#ffff00", "#000000", "#ffffff", "#777777", "#0b57a4", "#ff0000", "#0a7f5a"]


def test_contrast_is_that_of_the_guidelines() -> None:
    """Black on white is 21, a colour on itself 1, and a published example is 4.5 (WCAG 2.2, G18)."""
    assert brand.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert brand.contrast("#123456", "#123456") == pytest.approx(1)
    assert brand.contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("accent", ACCENTS)
def test_every_accent_can_be_read(accent: str) -> None:
    """Text on it and links of it have a contrast of 4.5 at least, by day and at night."""
    found = brand.shades(accent)
    assert found.accent == accent
    assert brand.contrast(found.on_accent, accent) >= 4.5
    assert brand.contrast(found.on_light, brand.LIGHT) >= 4.5
    assert brand.contrast(found.on_dark, brand.DARK) >= 4.5


def test_a_pale_accent_is_warned_of(settings: Settings) -> None:
    """The check names the setting and a shade that needs none; for a dark one and for none it is silent."""
    settings.IRONAUTH_BRAND_ACCENT = "#ffcc00"
    (found,) = brand.check_accent()
    assert "IRONAUTH_BRAND_ACCENT" in found.msg
    assert brand.shades("#ffcc00").on_light in str(found.hint)
    for accent in ("#0b57a4", ""):
        settings.IRONAUTH_BRAND_ACCENT = accent
        assert brand.check_accent() == []


async def test_the_accent_comes_as_a_file(api: httpx.AsyncClient, settings: Settings) -> None:
    """Pages link the style sheet where an accent is set: nothing is inline, so the policy stays as strict."""
    assert "/brand.css" not in (await api.get("/account/forgot")).text
    settings.IRONAUTH_BRAND_ACCENT = "#aa0044"
    page = await api.get("/account/forgot")
    assert "/brand.css?v=" in page.text
    assert "unsafe" not in page.headers["content-security-policy"]
    style = await api.get("/brand.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "--accent: #aa0044; --on-accent: #ffffff;" in style.text


@pytest.mark.parametrize("value", ["javascript:alert(1)", "example.com", "https://", "mailto:"])
def test_links_lead_to_addresses(value: str) -> None:
    """What is no address is refused at the start, by the name of its setting."""
    judge = branding.link("IRONAUTH_TERMS_URL")
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_TERMS_URL"):
        judge(value, None)
    assert judge("mailto:help@example.com", None) == "mailto:help@example.com"
    assert judge("", None) == ""


# ---------------------------------------------------------------- texts of the operator's own
WELCOME = branding.text("IRONAUTH_BRAND_WELCOME")


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("", {}),
        (" Hello ", {"": "Hello"}),
        ('{"en": "Hello", "de": "Hallo", "fr": ""}', {"en": "Hello", "de": "Hallo"}),
        ("x" * 300, {"": "x" * 300}),
    ],
)
def test_a_text_is_for_every_language_or_for_each(value: str, texts: dict[str, str]) -> None:
    """Plain, or a JSON object by language; an empty one is none."""
    assert WELCOME(value, None) == texts
    assert tuple(code for code, _ in live.LANGUAGES) == branding.LANGUAGES


@pytest.mark.parametrize(
    "value",
    [
        "x" * 301, "two\nlines", '{"it": "Ciao"}', '{"en": 1}', '{"en": {"a": "b"}}', '{"en": "a', '{"a":' * 20_000,
        '{"de": "' + "x" * 301 + '"}', '{"en": "two\\nlines"}',
    ],
)  # fmt: skip
def test_a_text_that_is_none_is_refused(value: str) -> None:
    """Too long, over two lines, of a language that no page speaks, no text: the start names the setting."""
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_BRAND_WELCOME"):
        WELCOME(value, None)


@pytest.mark.parametrize(("language", "said"), [("de", "Hallo &lt;3"), ("en", "Hello"), ("es", "Hello")])
@pytest.mark.django_db(transaction=True)
async def test_pages_say_it_in_the_readers_language(
    api: httpx.AsyncClient, settings: Settings, language: str, said: str
) -> None:
    """The welcome on the page for signing in alone, the footer on every page; as text, whatever is in it."""
    texts = {"en": "Hello", "de": "Hallo <3"}
    headers = {"Accept-Language": language}
    assert "<footer>" not in (await api.get("/account/forgot", headers=headers)).text
    settings.IRONAUTH_BRAND_WELCOME = texts
    assert f"    <p>{said}</p>\n" in (await api.get("/account/signin", headers=headers)).text
    assert said not in (await api.get("/account/forgot", headers=headers)).text
    settings.IRONAUTH_BRAND_WELCOME, settings.IRONAUTH_BRAND_FOOTER = {}, texts
    for path in ("/account/signin", "/account/forgot", "/nope"):
        page = (await api.get(path, headers=headers | {"Accept": "text/html"})).text
        assert page.count(said) == 1, path


def test_a_text_of_one_language_alone_is_that_of_all() -> None:
    """English comes first, then whatever there is."""
    assert brand.own_text({"fr": "Bonjour", "de": "Hallo"}) == "Bonjour"
    assert brand.own_text({}) == ""
