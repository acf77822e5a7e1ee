"""What people see of the operator: name, logo, colour, links. Pages, messages and the QR code have it from here."""

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from ironauth.config.table.setting import Section, Setting, SettingValues

COLOUR: Final = re.compile(r"#[0-9a-f]{6}")
LONGEST_VERSION: Final = 32  # characters; a date, or a number
#: What mail programs show (none of them all shows SVG), by the first bytes of a file.
MAIL_IMAGES: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF87a": "gif", b"GIF89a": "gif"}
MOST_MAIL_LOGO_BYTES: Final = (
    100_000  # it is in every message; 40 px high for a screen of twice the density takes 10 kB
)
LONGEST_TEXT: Final = 300  # characters; four lines on a phone of 320 px, eight where words are long
LANGUAGES: Final = ("en", "de", "fr", "es")  # as of ``settings.LANGUAGES``
LONGEST_NAME: Final = 60  # characters; a heading on a phone of 320 px takes two lines


def name(value: str, _given: SettingValues) -> str:
    """Return the name.

    Raises:
        ImproperlyConfigured: It fits in no heading.
    """
    if not value.strip() or len(value) > LONGEST_NAME or not value.isprintable():
        raise ImproperlyConfigured(f"IRONAUTH_BRAND_NAME has no or over {LONGEST_NAME} characters: shorten it")
    return value.strip()


def colour(value: str, _given: SettingValues) -> str:
    """Return the colour in small letters, "" for none.

    Raises:
        ImproperlyConfigured: It has another notation.
    """
    if value and not COLOUR.fullmatch(value.lower()):
        raise ImproperlyConfigured("IRONAUTH_BRAND_ACCENT is no colour: write it like #0b57a4")
    return value.lower()


def text(setting: str) -> Any:
    """Return what judges a sentence of the operator's own."""

    def judge(value: str, _given: SettingValues) -> dict[str, str]:
        texts = _texts(value, setting) if value.lstrip().startswith("{") else {"": value}
        if any(len(one) > LONGEST_TEXT or not one.isprintable() for one in texts.values()):
            raise ImproperlyConfigured(
                f"{setting} has over {LONGEST_TEXT} characters, or a line break: write one or two plain sentences"
            )
        return {code: one.strip() for code, one in texts.items() if one.strip()}

    return judge


def _texts(value: str, setting: str) -> dict[str, str]:
    """Return the texts by language. Raises ``ImproperlyConfigured``."""
    try:
        texts = json.loads(value)
    except (ValueError, RecursionError):
        texts = None
    if (
        not isinstance(texts, dict)
        or not texts.keys() <= set(LANGUAGES)
        or not all(isinstance(one, str) for one in texts.values())
    ):
        raise ImproperlyConfigured(
            f'{setting} is no list of texts by language: write it like {{"en": "Welcome", "de": "Willkommen"}}, with '
            f"some of {', '.join(LANGUAGES)}"
        )
    return texts


def link(setting: str) -> Any:
    """Return what judges an address that pages link to."""

    def judge(value: str, _given: SettingValues) -> str:
        parts = urlsplit(value)
        reaches = parts.netloc if parts.scheme in ("https", "http") else parts.scheme == "mailto" and parts.path
        if value and (not reaches or not value.isprintable()):
            raise ImproperlyConfigured(f"{setting} is no address: write it like https://example.com/help")
        return value

    return judge


def terms_version(value: str, given: SettingValues) -> str:
    """Return the version of the terms, "" where nobody is asked for consent.

    Args:
        value: As the environment has it.
        given: The other settings.

    Raises:
        ImproperlyConfigured: It is too long to be shown, or there are no terms to link to.
    """
    if len(value) > LONGEST_VERSION or not value.isprintable() or value != value.strip():
        raise ImproperlyConfigured(
            f"IRONAUTH_TERMS_VERSION has over {LONGEST_VERSION} characters, or odd ones: shorten it"
        )
    if value and not given["IRONAUTH_TERMS_URL"]:
        raise ImproperlyConfigured(
            "IRONAUTH_TERMS_VERSION asks for consent to terms that nobody can read: set IRONAUTH_TERMS_URL"
        )
    return value


def folders(value: str, _given: SettingValues) -> list[str]:
    """Return the folder as a list, empty for none.

    Raises:
        ImproperlyConfigured: It is no absolute path.
    """
    if not value:
        return []
    if not Path(value).is_absolute() or not Path(value).is_dir():
        raise ImproperlyConfigured("IRONAUTH_BRAND_FILES is not an absolute path of a folder: make the folder")
    return [value]


def logo(value: str, given: SettingValues) -> str:
    """Return the file's path below the folder.

    Args:
        value: The file, relative to the folder of IRONAUTH_BRAND_FILES.
        given: The settings that were read before this one.

    Raises:
        ImproperlyConfigured: It is not there.
    """
    if value:
        _file_of(value, given, "IRONAUTH_BRAND_LOGO")
    return value


def mail_logo(value: str, given: SettingValues) -> str:
    """Return the path of the file that messages bring along, "" for none.

    Args:
        value: The file, relative to the folder of IRONAUTH_BRAND_FILES.
        given: The settings that were read before this one.

    Raises:
        ImproperlyConfigured: It is not there, too large for a message, or nothing that mail programs show.
    """
    if not value:
        return ""
    file = _file_of(value, given, "IRONAUTH_BRAND_MAIL_LOGO")
    if not image_type(file):
        raise ImproperlyConfigured("IRONAUTH_BRAND_MAIL_LOGO is no PNG, JPEG or GIF: mail programs show no other image")
    if file.stat().st_size > MOST_MAIL_LOGO_BYTES:
        raise ImproperlyConfigured(
            f"IRONAUTH_BRAND_MAIL_LOGO has over {MOST_MAIL_LOGO_BYTES} bytes, and is in every message: make it smaller"
        )
    return str(file)


def image_type(file: Path) -> str:
    """Return the kind of an image that mail programs show; "" for any other file."""
    with file.open("rb") as opened:
        start = opened.read(max(map(len, MAIL_IMAGES)))
    return next((kind for first, kind in MAIL_IMAGES.items() if start.startswith(first)), "")


def _logo_for_mail(given: SettingValues) -> str:
    """Return the logo of the pages where messages can have it, too."""
    value = given["IRONAUTH_BRAND_LOGO"]
    file = Path(next(iter(given["IRONAUTH_BRAND_FILES"]), ""), value)
    return value if value and image_type(file) and file.stat().st_size <= MOST_MAIL_LOGO_BYTES else ""


def _file_of(value: str, given: SettingValues, setting: str) -> Path:
    """Return a file of the operator's folder. Raises ``ImproperlyConfigured``, which names the setting."""
    folder = next(iter(given["IRONAUTH_BRAND_FILES"]), "")
    if not folder or not Path(folder, value).resolve().is_relative_to(Path(folder).resolve()):
        raise ImproperlyConfigured(f"{setting} is not in IRONAUTH_BRAND_FILES: set that, and put it there")
    if not Path(folder, value).is_file():
        raise ImproperlyConfigured(f"{setting} is no file in IRONAUTH_BRAND_FILES: write it like logo.png")
    return Path(folder, value)


BRANDING = Section(
    "branding",
    Setting(
        "IRONAUTH_BRAND_NAME",
        "What pages, messages and authenticator apps call this service (default: IRONAUTH_OAUTH_SITE_NAME).",
        kind="text",
        default=lambda given: given["IRONAUTH_OAUTH_SITE_NAME"],
        example="Acme",
        accept=name,
        refused="empty, or more than 60 characters",
    ),
    Setting(
        "IRONAUTH_BRAND_FILES",
        "Absolute path of a folder whose files are served below /static/, for the logo and for templates of one's own "
        "(default: none).",
        accept=folders,
        type="list[str]",
        refused="no absolute path of a folder",
    ),
    Setting(
        "IRONAUTH_BRAND_LOGO",
        "The logo, a path below IRONAUTH_BRAND_FILES, e.g. logo.svg: 40 px high on pages (default: none).",
        example="logo.svg",
        accept=logo,
        refused="no file in that folder",
    ),
    Setting(
        "IRONAUTH_BRAND_MAIL_LOGO",
        "The logo of messages, a path below IRONAUTH_BRAND_FILES: a PNG, JPEG or GIF of at most 100,000 bytes, best "
        "twice as large as it is shown, 40 px high on white (default: IRONAUTH_BRAND_LOGO where it is such a file, "
        "else the name alone).",
        kind="text",
        default=_logo_for_mail,
        example="logo.png",
        accept=mail_logo,
        refused="no file in that folder, none of these images, or a larger one",
    ),
    Setting(
        "IRONAUTH_BRAND_ACCENT",
        "Colour of buttons and links, as #rrggbb (default: a blue). The text on it is black or white, whichever has "
        "more contrast; `manage.py check` says when links need another shade, which they get.",
        example="#0b57a4",
        accept=colour,
        refused="another notation",
    ),
    Setting(
        "IRONAUTH_BRAND_WELCOME",
        "A sentence of your own on the page for signing in: plain text, the same in every language, or one for each as "
        'a JSON object, {"en": "Welcome", "de": "Willkommen"}; a language without one has that of en, else the first '
        "(default: none).",
        example="Welcome to Acme",
        accept=text("IRONAUTH_BRAND_WELCOME"),
        type="dict[str, str]",
        refused="over 300 characters, a line break, and languages that pages do not speak",
    ),
    Setting(
        "IRONAUTH_BRAND_FOOTER",
        "The same at the foot of pages and messages, for instance who runs this service (default: none).",
        example="Acme Ltd, 1 High Street, London",
        accept=text("IRONAUTH_BRAND_FOOTER"),
        type="dict[str, str]",
        refused="over 300 characters, a line break, and languages that pages do not speak",
    ),
    Setting(
        "IRONAUTH_SUPPORT_URL",
        "Where people find help, https:// or mailto: (default: none). Linked at the foot of pages and messages.",
        example="https://example.com/help",
        accept=link("IRONAUTH_SUPPORT_URL"),
        refused="no such address",
    ),
    Setting(
        "IRONAUTH_TERMS_URL",
        "The terms of use, linked in the same places (default: none).",
        example="https://example.com/terms",
        accept=link("IRONAUTH_TERMS_URL"),
        refused="no such address",
    ),
    Setting(
        "IRONAUTH_TERMS_VERSION",
        "The version of the terms that people accept when they make an account, by page or API; it is kept with the "
        "time. Needs IRONAUTH_TERMS_URL (default: none, and nobody is asked).",
        example="2026-11-01",
        accept=terms_version,
        refused="over 32 characters, and a version without IRONAUTH_TERMS_URL",
    ),
    Setting(
        "IRONAUTH_PRIVACY_URL",
        "The privacy notice, linked in the same places (default: none).",
        example="https://example.com/privacy",
        accept=link("IRONAUTH_PRIVACY_URL"),
        refused="no such address",
    ),
)
