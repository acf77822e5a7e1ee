"""How the HTML part of a message looks: the logo in it, and colours that can be read by day and at night."""

import base64
import re
from collections.abc import Iterator
from email.message import EmailMessage
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from django.core.exceptions import ImproperlyConfigured

from accounts.outbox import queue as outbox
from accounts.outbox import rendering
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from ironauth.config.table import branding
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.infrastructure.http.brand import LEAST_CONTRAST, contrast

PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF: Final = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
SVG: Final = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
ACCENTS: Final = ("", "#ffff00", "#000000", "#ffffff", "#0a7f5a", "#777777")


@pytest.fixture(autouse=True)
def _own_cache() -> Iterator[None]:
    rendering._logo.cache_clear()
    yield
    rendering._logo.cache_clear()


def sent(kind: Kind = Kind.SIGN_IN_CODE) -> EmailMessage:
    """Return a message as a server sends it."""
    row = EmailToken(purpose=Purpose.RESET_PASSWORD, nonce=b"n" * 32, master_key_id=newest_master_key_id())
    row.code_tries = 0 if kind in (Kind.SIGN_IN_CODE, Kind.CONFIRMATION_CODE) else None
    claimed = outbox.Claimed(new_id(), kind, "mia@example.com", 1, clock.now(), {}, row)
    assert email_tokens.text(row)
    return rendering.render(claimed).message()


def types(message: EmailMessage) -> list[str]:
    """Return the types of its parts, from outside to inside."""
    return [part.get_content_type() for part in message.walk()]


def text_of(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def test_the_logo_is_in_the_message(settings: Any, tmp_path: Path) -> None:
    """Beside the HTML part, which names it; the text is the one of before, and nothing is loaded from elsewhere."""
    plain = sent()
    assert types(plain) == ["multipart/alternative", "text/plain", "text/html"]
    assert "<img" not in text_of(plain, "html")
    (tmp_path / "logo.png").write_bytes(PNG)
    settings.IRONAUTH_BRAND_MAIL_LOGO = str(tmp_path / "logo.png")
    message = sent()
    assert types(message) == ["multipart/alternative", "text/plain", "multipart/related", "text/html", "image/png"]
    (image,) = [part for part in message.walk() if part.get_content_type() == "image/png"]
    assert image.get_payload(decode=True) == PNG
    assert image["Content-Disposition"].startswith("inline")
    shown = re.search(r'<img src="cid:([^"]+)" alt="([^"]+)"', text_of(message, "html"))
    assert shown is not None
    assert f"<{shown[1]}>" == image["Content-ID"]
    assert shown[2] == settings.IRONAUTH_BRAND_NAME
    assert not re.search(r'(?:src|url\()="?https?:', text_of(message, "html"))
    text = message.as_bytes().partition(b"text/plain")[2].partition(b"\n\n")[2]
    assert text.startswith(text_of(message, "plain").encode()[:60])  # as it was written, and not encoded


# ---------------------------------------------------------------- which files
def judged(folder: Path, value: str) -> str:
    given: Any = {"IRONAUTH_BRAND_FILES": [str(folder)]}
    return branding.mail_logo(value, given)


@pytest.mark.parametrize(("name", "content"), [("a.png", PNG), ("b.gif", GIF), ("c.jpg", b"\xff\xd8\xff\xe0")])
def test_what_mail_programs_show_is_taken(tmp_path: Path, name: str, content: bytes) -> None:
    """By what is in the file, up to 100,000 bytes; a byte more is refused."""
    file = tmp_path / name
    file.write_bytes(content.ljust(branding.MOST_MAIL_LOGO_BYTES, b"\0"))
    assert judged(tmp_path, name) == str(file)
    file.write_bytes(content.ljust(branding.MOST_MAIL_LOGO_BYTES + 1, b"\0"))
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_BRAND_MAIL_LOGO has over 100000 bytes"):
        judged(tmp_path, name)


@pytest.mark.parametrize("content", [SVG, b"", b"RIFF\x00\x00\x00\x00WEBPVP8 ", b"\x89PNG", b"%PDF-1.7"])
def test_any_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever it is called."""
    (tmp_path / "logo.png").write_bytes(content)
    with pytest.raises(ImproperlyConfigured, match="no PNG, JPEG or GIF"):
        judged(tmp_path, "logo.png")


@pytest.mark.parametrize("value", ["none.png", "../logo.png", "."])
def test_a_file_elsewhere_is_refused(tmp_path: Path, value: str) -> None:
    """One that is not there, not in the folder, or the folder itself."""
    (tmp_path / "files").mkdir()
    (tmp_path / "logo.png").write_bytes(PNG)
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_BRAND_MAIL_LOGO is no"):
        judged(tmp_path / "files", value)


def test_the_pages_logo_is_taken_where_it_can_be(tmp_path: Path) -> None:
    """A PNG that is small enough; for an SVG, a larger file or none the name stands alone."""
    default: Any = next(one for one in branding.BRANDING.settings if one.name == "IRONAUTH_BRAND_MAIL_LOGO").default
    cases = {"a.png": (PNG, "a.png"), "b.svg": (SVG, ""), "c.png": (PNG.ljust(branding.MOST_MAIL_LOGO_BYTES + 1), "")}
    for name, (content, expected) in cases.items():
        (tmp_path / name).write_bytes(content)
        assert default({"IRONAUTH_BRAND_FILES": [str(tmp_path)], "IRONAUTH_BRAND_LOGO": name}) == expected
    assert default({"IRONAUTH_BRAND_FILES": [], "IRONAUTH_BRAND_LOGO": ""}) == ""


# ---------------------------------------------------------------- colours
class Look(HTMLParser):
    """Collects each text with its colour and what is behind it; at night as the style sheet says for a class."""

    def __init__(self, page: str, *, at_night: bool) -> None:
        super().__init__()
        sheet = page.partition("<style>")[2].partition("</style>")[0].partition("prefers-color-scheme: dark")[2]
        self.night = {name: rules for name, rules in re.findall(r"\.(\w+) \{ ([^}]+)\}", sheet) if at_night}
        self.stack: list[tuple[str, str]] = [("", "")]
        self.found: list[tuple[str, str, str]] = []
        self.feed(page.partition("<body")[1] + page.partition("<body")[2])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        rules = f"{given.get('style', '')};{self.night.get(given.get('class', ''), '')}"
        colour, behind = self.stack[-1]
        for rule in rules.split(";"):
            name, _, value = (part.strip() for part in rule.partition(":"))
            value = value.removesuffix("!important").strip()
            if name == "color":
                colour = value
            if name == "background":
                behind = value
        if tag == "img":  # its text is shown where it is not
            self.found.append((given["alt"], colour, behind))
        elif tag not in ("br", "meta"):
            self.stack.append((colour, behind))

    def handle_endtag(self, tag: str) -> None:
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.found.append((data.strip(), *self.stack[-1]))


@pytest.mark.parametrize("at_night", [False, True])
@pytest.mark.parametrize("accent", ACCENTS)
def test_every_text_can_be_read(settings: Any, tmp_path: Path, accent: str, at_night: bool) -> None:
    """With whatever accent, links and the name in place of the logo too: a contrast of 4.5 (WCAG 2.2 §1.4.3)."""
    settings.IRONAUTH_BRAND_ACCENT = accent
    settings.IRONAUTH_SUPPORT_URL = settings.IRONAUTH_TERMS_URL = "https://example.com/"
    (tmp_path / "logo.png").write_bytes(PNG)
    for logo in ("", str(tmp_path / "logo.png")):
        settings.IRONAUTH_BRAND_MAIL_LOGO = logo
        rendering._logo.cache_clear()
        for kind in Kind:
            found = Look(text_of(sent(kind), "html"), at_night=at_night).found
            assert len(found) > 4
            for text, colour, behind in found:
                assert contrast(colour, behind) >= LEAST_CONTRAST, (kind, text, colour, behind)


@pytest.mark.parametrize(("language", "said"), [("de", "Acme GmbH"), ("fr", "Acme Ltd")])
def test_the_operators_footer_is_in_both_parts(settings: Any, language: str, said: str) -> None:
    """At the end of the text, and in the HTML part once; in the message's language, else in English."""
    settings.IRONAUTH_BRAND_FOOTER = {"en": "Acme Ltd", "de": "Acme GmbH"}
    claimed = outbox.Claimed(
        new_id(), Kind.PASSWORD_CHANGED, "mia@example.com", 1, clock.now(), {"language": language}, None
    )
    message = rendering.render(claimed)
    assert str(message.body).endswith(f"\n\n{said}\n")
    assert str(message.alternatives[0][0]).count(said) == 1
