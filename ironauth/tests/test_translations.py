"""What people read is translated: completely, with the same placeholders, and compiled."""

import ast
import gettext
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import httpx
import pytest
from django.conf import settings
from django.utils import translation
from django.utils.formats import date_format

from accounts.outbox import queue as outbox
from accounts.outbox import rendering as mail_rendering
from accounts.outbox.kinds import Kind
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

ROOT: Final = Path(settings.BASE_DIR)
LANGUAGES: Final = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
_MARKED: Final = re.compile(r"""\{% translate (?:"([^"]+)"|'([^']+)') %\}""")
_TAGS: Final = re.compile(r"\{% blocktranslate.*?endblocktranslate %\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLACEHOLDER: Final = re.compile(r"%\(\w+\)s|\{\w+\}|</?\w+[^>]*>")
#: Templates that only developers or staff see.
_ENGLISH: Final = ("/admin/", "ironauth/docs.html", "ironauth/errors.html", "ironauth/error_code.html")


def _text(lines: str) -> str:
    return "".join(ast.literal_eval(part) for part in _QUOTED.findall(lines))


@cache
def _entries(language: str) -> dict[str, list[str]]:
    """Return the translations of each message, one or one for each number."""
    content = (ROOT / "ironauth" / "locale" / language / "LC_MESSAGES" / "django.po").read_text()
    assert "fuzzy" not in content
    assert "#~" not in content
    found = {}
    for block in content.strip().split("\n\n")[1:]:
        parts = re.split(r"^(msgid|msgid_plural|msgstr(?:\[\d\])?) ", block, flags=re.MULTILINE)
        pairs = list(zip(parts[1::2], parts[2::2], strict=True))
        found[_text(pairs[0][1])] = [_text(lines) for name, lines in pairs if name.startswith("msgstr")]
    return found


def _templates() -> list[Path]:
    found = [
        path
        for app in ("ironauth", "accounts", "tokens")
        for path in (ROOT / app / "templates").rglob("*.*")
        if not any(part in path.as_posix() for part in _ENGLISH)
    ]
    assert len(found) > 60
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_is_translated(language: str) -> None:
    """No message is without translation, or one that is only a guess; placeholders and tags are the same."""
    entries = _entries(language)
    assert len(entries) > 300
    assert not [message for message, texts in entries.items() if not all(texts)]
    for message, texts in entries.items():
        for text in texts:
            assert sorted(_PLACEHOLDER.findall(text)) == sorted(_PLACEHOLDER.findall(message)), text
            assert text[:1].isspace() == message[:1].isspace()
            assert text.count("|") == message.count("|")


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_compiled_is_what_is_written(language: str) -> None:
    """The committed catalogue that servers read has the texts of the one that people write."""
    with (ROOT / "ironauth" / "locale" / language / "LC_MESSAGES" / "django.mo").open("rb") as compiled:
        catalogue = gettext.GNUTranslations(compiled)
    for message, texts in _entries(language).items():
        shown = catalogue.gettext(message) if len(texts) == 1 else catalogue.ngettext(message, message, 1)
        assert shown == texts[0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_marked_text_is_in_the_catalogue(language: str) -> None:
    """What templates mark has been collected (``make messages``)."""
    known = _entries(language).keys()
    for path in _templates():
        source = path.read_text()
        marked = [
            double or single for double, single in re.findall(r"""\{% translate (?:"([^"]+)"|'([^']+)') %\}""", source)
        ]
        for block in re.findall(r"\{% blocktranslate[^%]*?%\}(.*?)\{% endblocktranslate %\}", source, flags=re.DOTALL):
            first = re.sub(r"\s+", " ", block.split("{% plural %}")[0].strip())
            marked.append(re.sub(r"\{\{ (\w+) \}\}", r"%(\1)s", first))
        assert not [text for text in marked if text not in known], path


def test_every_text_of_a_template_is_marked() -> None:
    """A word outside of tags would be English in every language."""
    for path in _templates():
        plain = re.sub(r"\{% block \w+_role %\}.*?\{% endblock %\}", "", path.read_text())  # of an attribute
        plain = _TAGS.sub("", plain)
        plain = re.sub(r" hidden|data-[a-z]+=", "", plain)  # of the block of attributes
        plain = re.sub(r"<style>.*?</style>|<!--.*?-->", "", plain, flags=re.DOTALL)
        words = re.findall(r"[A-Za-z]{3,}", re.sub(r"<[^>]*>", "", plain))
        assert not words, path


@pytest.mark.parametrize(
    ("asked", "accepted", "shown"),
    [
        ("", "", "en"),
        ("", "de-AT,en;q=0.5", "de"),
        ("", "it, fr;q=0.8", "fr"),
        ("", "it", "en"),
        ("xx es", "de", "es"),
        ("", "de" + ",de;q=0.1" * 100, "en"),
    ],
)
@pytest.mark.django_db(transaction=True)
async def test_a_page_speaks_the_language_of_its_reader(
    api: httpx.AsyncClient, asked: str, accepted: str, shown: str
) -> None:
    """``ui_locales`` goes before ``Accept-Language``; the page declares what it has and what that depends on."""
    headers = {"Accept-Language": accepted}
    answer = await api.get("/account/signin", params={"ui_locales": asked} if asked else {}, headers=headers)
    assert f'<html lang="{shown}">' in answer.text
    assert answer.headers["content-language"] == shown
    assert "Accept-Language" in answer.headers["vary"]
    with translation.override(shown):
        assert translation.gettext("Forgot your password?") in answer.text
    if asked:  # the forms that follow are in the same language
        answer = await api.get("/account/forgot", headers=headers)
        assert f'<html lang="{shown}">' in answer.text


@pytest.mark.django_db(transaction=True)
async def test_the_cached_sign_in_page_knows_its_language(api: httpx.AsyncClient) -> None:
    """The page that is kept for a client is not another reader's."""
    for code in ("de", "fr", "de", "en"):
        answer = await api.get("/account/signin", headers={"Accept-Language": code})
        assert f'<html lang="{code}">' in answer.text


async def test_the_api_stays_english(api: httpx.AsyncClient) -> None:
    """Codes and texts for programs do not depend on Accept-Language."""
    answer = await api.post("/api/v1/access/password/reset", json={"email": "x"}, headers={"Accept-Language": "de"})
    assert "Enter an e-mail address" in answer.text
    assert "content-language" not in answer.headers
    body = {"email": "a\0@example.com", "name": "x" * 151, "password": "x"}
    answer = await api.post("/api/v1/access/signup", json=body, headers={"Accept-Language": "de"})
    said = {error["field"]: error["message"] for error in answer.json()["errors"]}
    assert said["name"] == "A name has at most 150 characters."
    assert said["email"] == "The character U+0000 is not accepted in an e-mail address: type it without."


@pytest.mark.parametrize("language", [*LANGUAGES, ""])
def test_a_message_is_in_the_language_it_was_queued_in(language: str) -> None:
    """Subject, text and HTML part alike."""
    facts = {"language": language} if language else {}
    claimed = outbox.Claimed(new_id(), Kind.PASSWORD_CHANGED, "mia@example.com", 1, clock.now(), facts, None)
    message = mail_rendering.render(claimed)
    with translation.override(language or "en"):
        assert message.subject == translation.gettext("Your password was changed")
    html = str(message.alternatives[0][0])
    assert f'<html lang="{language or "en"}">' in html
    assert message.subject in html


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("en", "8 November 2026, 14:05"),
        ("de", "8. November 2026, 14:05"),
        ("fr", "8 novembre 2026, 14:05"),
        ("es", "8 de noviembre de 2026, 14:05"),
    ],
)
def test_a_point_in_time_is_written_as_the_language_does(language: str, written: str) -> None:
    """A sentence of a page or a message has the day before the month, with what the language puts between them."""
    assert language in dict(settings.LANGUAGES)
    with translation.override(language):
        assert date_format(datetime(2026, 11, 8, 14, 5, tzinfo=UTC), "MOMENT_FORMAT") == written
