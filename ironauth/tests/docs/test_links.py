"""Links between our pages, and pictures on them."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from ironauth.tests.docs.blocks import FENCE, ROOT, pages, text_of

LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
#: Pages that the site writes itself, each time it is built.
WRITTEN = set(
    re.findall(r"^/(docs/reference/[\w-]+\.md)$", (ROOT / ".gitignore").read_text(encoding="utf-8"), re.MULTILINE)
)


def prose(page: str) -> str:
    """Return a page without its code."""
    return CODE.sub("x", FENCE.sub("", text_of(page)))


def anchors(page: str) -> set[str]:
    """Return the names of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for title in re.findall(r"^#{1,6} (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(name if name not in found else f"{name}-1")
    return found


def broken(page: str) -> list[str]:
    """Return the links of a page that lead nowhere in this repository."""
    wrong = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (Path(page).parent / path) if path else Path(page)
        name = str((ROOT / target).resolve().relative_to(ROOT))
        if name in WRITTEN:
            continue
        if not (ROOT / name).exists() or (anchor and anchor not in anchors(name)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    """Each link to a page of ours names a file that is there, and a heading that this file has."""
    assert broken(page) == []


def test_a_wrong_link_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not there, and a heading that is not."""
    here = "ironauth.tests.docs.test_links"
    shown = "# A title\n[a](b.md) [c](#d) [e](#a-title) [f](https://example.com) `[g](h.md)`\n"
    monkeypatch.setattr(f"{here}.text_of", lambda _: shown)
    monkeypatch.setattr(f"{here}.ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "x.md").write_text(shown, encoding="utf-8")
    assert broken("docs/x.md") == ["b.md", "#d"]


def test_pictures_are_made_by_a_command() -> None:
    """`make screenshots` renews each picture of the site, from one that a browser test takes."""
    there = {file.name for file in (ROOT / "docs" / "images").iterdir()}
    recipe = (ROOT / "docs" / "pictures.py").read_text(encoding="utf-8")
    made: dict[str, str] = dict(re.findall(r'"([\w-]+\.png)": "([\w-]+)-\d+-(?:light|dark)\.png"', recipe))
    assert there == set(made)
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "ironauth/tests/browser").glob("test_*.py"))
    assert all(f'.look("{name}")' in tests for name in made.values())
    assert "docs/pictures.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
