"""How long the sentences of our pages are, and the README: short enough to be read once."""

import json
import re

import pytest

from ironauth.tests.docs.blocks import FENCE, pages, text_of
from ironauth.tests.test_house_language import CEILINGS

LONGEST_AVERAGE = 18.0  # words of a page's sentences (design, §5)
README_LINES = 180
#: What ends a sentence: a stop before a capital, a quotation, code, a link or bold type.
END = re.compile(r"(?<=[.!?])[)*\"]*\s+(?=[\"(*`\[A-Z])")
ITEM = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")


def sentences(text: str) -> list[int]:
    """Return how many words each sentence of a page has; code counts as one word, tables and headings are left out."""
    text = FENCE.sub("\n", text)
    text = re.sub(r"^\s*(?:\||#|:::).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "Code", text, flags=re.DOTALL)
    counted = []
    for part in ITEM.split(text):
        for sentence in END.split(" ".join(part.split())):
            words = len(re.findall(r"[^\W_][\w'-]*", sentence))
            counted += [words] if words > 1 else []
    return counted


def average(page: str) -> float:
    """Return the average of a page, in words."""
    counted = sentences(text_of(page))
    return sum(counted) / len(counted) if counted else 0.0


@pytest.mark.parametrize("page", [page for page in pages() if page.startswith(("docs/", "README", "clients/"))])
def test_sentences_are_short(page: str) -> None:
    """A page's average is at most 18 words, or at most what is listed of a page that is to become shorter."""
    listed: dict[str, int] = json.loads(CEILINGS.read_text(encoding="utf-8"))["words of a sentence"]
    assert round(average(page), 1) <= listed.get(page, LONGEST_AVERAGE)


def test_the_list_becomes_shorter() -> None:
    """A page that is short enough by now is not listed, nor is one with a higher number than it has."""
    listed: dict[str, int] = json.loads(CEILINGS.read_text(encoding="utf-8"))["words of a sentence"]
    for page, most in listed.items():
        assert most > LONGEST_AVERAGE
        assert average(page) > max(LONGEST_AVERAGE, most - 1)


def test_how_sentences_are_counted() -> None:
    """Stops end them, also in lists; numbers, code and links do not; what is no prose does not count."""
    text = "# A title\n\nOne two 3.5 `a. B` four. Five [six seven](x.md)!\n\n- eight nine\n- ten\n\n| a | b |\n"
    assert sentences(text) == [6, 3, 2]


def test_the_readme_is_short() -> None:
    """It fits on a few screens, and the rest is on the site."""
    assert len(text_of("README.md").splitlines()) <= README_LINES
