"""A language for tests: English in which every text that is translated stands between ⟦ and ⟧.

What a page shows outside of them is data, or was written into the code in English. A placeholder's value stands between
⟪ and ⟫, so that it is looked at like any other text: it is no part of the translated sentence.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from django.conf import settings
from django.utils.translation import trans_real

#: The language whose readers get the marked texts while a test runs.
READER: Final = "de"
TRANSLATED: Final = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
_CONTEXT: Final = trans_real.CONTEXT_SEPARATOR
_PLACEHOLDER: Final = re.compile(r"(<[^>]*>)|(%\(\w+\)s|%[sd]|\{\w*\})")
_MARK: Final = re.compile("[⟦⟧⟪⟫]")
_WORD: Final = re.compile(r"[A-Za-z]{2,}")
#: What is data wherever it stands: e-mail addresses, web addresses, points in time.
_DATA: Final = re.compile(r"[\w.+-]+@[\w.-]+|[a-z]+://[^\s⟦⟧⟪⟫]+|\bUTC\b")
#: What a script of the pages fills in.
_FILLED: Final = "{host}"
#: What readers hear or see of an element beside its text (WAI-ARIA 1.2 §6.6, HTML).
_HEARD: Final = frozenset({"alt", "aria-description", "aria-label", "aria-roledescription", "placeholder", "title"})
#: What is not seen, and what is typed or copied letter by letter.
_LEFT_OUT: Final = frozenset({"code", "script", "style"})
_EMPTY: Final = frozenset({"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
_BUTTONS: Final = frozenset({"button", "reset", "submit"})


class Marked:
    """What Django asks for a text of `READER`, in place of the German catalogue."""

    def __init__(self) -> None:
        self._catalogues = catalogues()
        #: Texts that were asked for and are translated.
        self.asked: set[str] = set()

    def to_language(self) -> str:
        """Return the code of the language."""
        return READER

    def gettext(self, message: str) -> str:
        """Return the message, marked where every language has it."""
        if not all(message in one or (message, 0) in one for one in self._catalogues):
            return message
        self.asked.add(message)
        return marked(message.rpartition(_CONTEXT)[2])

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        """Return the form for this number, marked where every language has it."""
        text = singular if number == 1 else plural
        if not all((singular, 0) in one for one in self._catalogues):
            return text
        self.asked.add(singular)
        return marked(text)


def catalogues() -> list[Any]:
    """Return what each language has, as Django merges it: texts, and pairs of a text and the number of a form."""
    return [vars(trans_real.DjangoTranslation(code))["_catalog"] for code in TRANSLATED]


def marked(message: str) -> str:
    """Return a message between ⟦ and ⟧, and each of its placeholders between ⟪ and ⟫, but for those inside of tags."""
    return f"⟦{_PLACEHOLDER.sub(lambda found: found[1] or f'⟪{found[2]}⟫', message)}⟧"


@contextmanager
def spoken() -> Iterator[Marked]:
    """Let readers of `READER` get marked texts in this block."""
    language = Marked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(trans_real)["_translations"], READER, language)
        yield language


def english_in(text: str, data: Iterable[str] = ()) -> list[str]:
    """Return the parts of a text that have words outside of the marks, and are no data.

    Args:
        text: A text as somebody reads it.
        data: What else is data in it.
    """
    for one in sorted(data, key=len, reverse=True):
        text = text.replace(one, " ")
    text = _DATA.sub(" ", text.replace(f"⟪{_FILLED}⟫", " "))
    found, depth = [], ["⟪"]
    for part in re.split(f"({_MARK.pattern})", text):
        if part in ("⟦", "⟪"):
            depth.append(part)
        elif part in ("⟧", "⟫"):
            depth.pop()
        elif depth[-1] == "⟪" and _WORD.search(part):
            found.append(part.strip())
    assert depth == ["⟪"], text
    return found


class _Reader(HTMLParser):
    """Collects what somebody reads or hears of a page: a text for each block of it, and the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._blocks = [""]
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the attributes that are read out, and leave out what is in another language."""
        given = {name: value or "" for name, value in attrs}
        heard = {name for name in given if name in _HEARD or (tag == "main" and name.startswith("data-"))}
        heard |= {"data-levels"} & given.keys()
        if tag == "input" and given.get("type") in _BUTTONS:
            heard.add("value")
        if tag == "meta" and given.get("name") == "description":
            heard.add("content")
        self.texts += [given[name] for name in sorted(heard)]
        if tag not in _EMPTY:
            self._open.append((tag, tag in _LEFT_OUT or (tag != "html" and "lang" in given)))

    def handle_endtag(self, tag: str) -> None:
        """Leave the element."""
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Take a text that is seen."""
        if not any(unseen for _, unseen in self._open):
            self._blocks[-1] += data

    def read(self, page: str) -> list[str]:
        """Return every text of a page. A translated sentence may have tags in it, hence texts are read in one piece."""
        self.feed(page)
        self.close()
        return [*self.texts, *self._blocks]


def english_on(page: str, data: Iterable[str] = ()) -> list[str]:
    """Return what a page shows outside of the marks that is no data.

    Args:
        page: The HTML.
        data: What is data on it.
    """
    known = list(data)
    return [found for text in _Reader().read(page) for found in english_in(text, known)]


class Readings:
    """What was read so far: every page and message, and what was not translated in them."""

    def __init__(self, language: Marked) -> None:
        self.language = language
        self.data: set[str] = set()
        self.read = 0
        self.places: set[str] = set()
        self.english: dict[str, str] = {}

    def page(self, where: str, text: str, *data: str) -> None:
        """Read a page; ``data`` is what it may show of what was sent, beside what everybody knows."""
        self.read += 1
        self.places.add(where)
        for found in english_on(text, {*self.data, *data}):
            self.english.setdefault(" ".join(found.split()), where)

    def text(self, where: str, text: str, *data: str) -> None:
        """Read a text."""
        self.read += 1
        for found in english_in(text, {*self.data, *data}):
            self.english.setdefault(" ".join(found.split()), where)

    def done(self, least: int) -> None:
        """Fail with what was not translated, and where less than ``least`` was read."""
        said = "\n".join(f"{where}: {text[:200]}" for text, where in sorted(self.english.items()))
        assert not self.english, f"not translated:\n{said}"
        assert self.read >= least


def heard(readings: Readings, response: Any, *data: str) -> None:
    """Read what a client was answered, if that is a page."""
    if str(response.headers.get("content-type", "")).startswith("text/html"):
        request = response.request
        readings.page(f"{response.status_code} {request.method} {request.url.path}", response.text, *data)
