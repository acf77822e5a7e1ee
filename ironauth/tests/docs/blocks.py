"""The code blocks of our pages, and a guide whose blocks a test uses up."""

import json
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

from django.conf import settings

ROOT: Final = Path(settings.BASE_DIR)
LISTS: Final = Path(__file__).with_name("blocks.json")
FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
#: The first line of a block that is a file: a comment with its name.
NAME: Final = re.compile(r"^(?:#|//|<!--) (?P<name>[\w./-]+\.\w+)(?: -->)?\n")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, where it begins, and what is in it."""

    page: str
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, by which lists name it."""
        return next(iter(self.text.strip().splitlines()), "").strip()

    @property
    def file(self) -> str:
        """The name of the file that the block is, or nothing."""
        found = NAME.match(self.text)
        return found["name"] if found else ""


@cache
def pages() -> tuple[str, ...]:
    """Return the names of every page that people read, those that are not committed yet too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(sorted({name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}))


def text_of(page: str) -> str:
    """Return what is written on a page."""
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page from top to bottom, without the site's own directives."""
    text = text_of(page)
    found = []
    for match in FENCE.finditer(text):
        language = match["language"].strip()
        if not language.startswith("{"):
            lines = (line.removeprefix(match["indent"]) for line in match["text"].splitlines())
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, language, "".join(f"{each}\n" for each in lines)))
    return tuple(found)


def listed(kind: str) -> dict[str, dict[str, str]]:
    """Return a part of `blocks.json`: "elsewhere" and "unexecuted" have first lines of blocks for each page."""
    found: dict[str, dict[str, str]] = json.loads(LISTS.read_text(encoding="utf-8"))[kind]
    return found


def reason(block: Block) -> str:
    """Return why a block is not executed, or nothing."""
    return listed("unexecuted").get(block.page, {}).get(block.first, "")


def excused(block: Block) -> bool:
    """Return whether a page's own test may leave a block: another one executes it, or none can."""
    return bool(reason(block) or listed("elsewhere").get(block.page, {}).get(block.first))


class Guide:
    """A page whose blocks a test uses. At the end of ``with`` none may be left but those `blocks.json` names.

    Args:
        page: Its name below the repository.
        changes: What is written there, and what stands here in its place: addresses, mostly.
    """

    def __init__(self, page: str, *changes: tuple[str, str]) -> None:
        self._blocks, self._changes = blocks(page), changes
        self._used: set[int] = set()
        assert self._blocks, page

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            unused = [block for number, block in enumerate(self._blocks) if number not in self._used]
            assert [block.first for block in unused if block.language != "text" and not excused(block)] == []

    def _take(self, wanted: list[int]) -> str:
        assert wanted
        self._used |= set(wanted)
        text = "".join(self._blocks[number].text for number in wanted)
        for written, here in self._changes:
            text = text.replace(written, here)
        return text

    def file(self, name: str) -> str:
        """Return what the page has in the file ``name``, from all its blocks."""
        return self._take([number for number, block in enumerate(self._blocks) if block.file == name])

    def write(self, folder: Path, *names: str) -> None:
        """Write files of the page into a folder."""
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(self.file(name), encoding="utf-8")

    def block(self, start: str) -> str:
        """Return the one block whose first line begins so."""
        wanted = [number for number, block in enumerate(self._blocks) if block.first.startswith(start)]
        assert len(wanted) == 1, (start, wanted)
        return self._take(wanted)
