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
            words = len(re.findall(r"[^\W_][\w'\u2019-]*", sentence))
            counted += [words] if words > 1 else []
    return counted


#: Records of measurements and of decisions are judged together, a folder at a time.
RECORDS = ("docs/decisions", "docs/performance")
PAGES = [page for page in pages() if page.startswith(("docs/", "README", "clients/"))]
UNITS = [*RECORDS, *(page for page in PAGES if not page.startswith(RECORDS))]


def average(unit: str) -> float:
    """Return the average of a page, or of the pages of a folder, in words."""
    counted = [words for page in PAGES if page.startswith(unit) for words in sentences(text_of(page))]
    return sum(counted) / len(counted) if counted else 0.0


@pytest.mark.parametrize("unit", UNITS)
def test_sentences_are_short(unit: str) -> None:
    """A page's average is at most 18 words, or at most what is listed of a folder that is to become shorter."""
    listed: dict[str, int] = json.loads(CEILINGS.read_text(encoding="utf-8"))["words of a sentence"]
    assert set(listed) <= set(RECORDS)
    assert round(average(unit), 1) <= listed.get(unit, LONGEST_AVERAGE)


def test_how_sentences_are_counted() -> None:
    """Stops end them, also in lists; numbers, code and links do not; what is no prose does not count."""
    text = "# A title\n\nOne two 3.5 `a. B` four. Five [six seven](x.md)!\n\n- eight nine\n- ten\n\n| a | b |\n"
    assert sentences(text) == [6, 3, 2]


def test_the_readme_is_short() -> None:
    """It fits on a few screens, and the rest is on the site."""
    assert len(text_of("README.md").splitlines()) <= README_LINES
