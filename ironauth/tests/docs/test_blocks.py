"""Every block of code on our pages is executed by a test, or stands in `blocks.json` with the reason why not."""

import ast
import configparser
import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
import yaml

from ironauth.tests.docs.blocks import LISTS, ROOT, Block, Guide, blocks, listed, pages, reason
from ironauth.tests.docs.shell import found
from ironauth.tests.test_house_language import CEILINGS

ALL = [block for page in pages() for block in blocks(page)]
#: How a picture or a printed answer cannot begin: it would be a command that nobody tries.
COMMANDS = re.compile(
    r"^\s*(?:\$ |(?:sudo|curl|pip|npm|go|make|docker|apt|python3?|sh|psql|git) [\w./-])", re.MULTILINE
)


def elsewhere(block: Block) -> str:
    """Return the test that executes a block without being its page's guide, or nothing."""
    of_page = listed("elsewhere").get(block.page, {})
    return of_page.get(block.first) or of_page.get(f"*{block.language}", "")


@pytest.mark.parametrize("page", sorted({block.page for block in ALL}))
def test_every_block_is_executed(page: str) -> None:
    """By its page's test, by another one, or not, with a reason; a picture has no command in it."""
    guides: dict[str, str] = json.loads(LISTS.read_text(encoding="utf-8"))["guides"]
    for block in blocks(page):
        if block.language == "text":
            assert not COMMANDS.search(block.text), block
        else:
            assert page in guides or elsewhere(block) or reason(block), f"nobody executes {page}:{block.line}"


@pytest.mark.parametrize("kind", ["elsewhere", "unexecuted"])
def test_the_lists_name_blocks_that_there_are(kind: str) -> None:
    """An entry whose block has gone or changed goes too."""
    for page, entries in listed(kind).items():
        there = {name for block in blocks(page) for name in (block.first, f"*{block.language}")}
        assert set(entries) <= there


def test_the_tests_that_are_named_exist() -> None:
    """Each test is a function of its module, and a guide's module names the page."""
    tree = json.loads(LISTS.read_text(encoding="utf-8"))
    named = {(page, test) for page, test in tree["guides"].items()}
    named |= {(page, test) for page, entries in tree["elsewhere"].items() for test in entries.values()}
    for page, test in named:
        file, _, function = test.partition("::")
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {function}\(", source, re.MULTILINE), test
        if page in tree["guides"]:
            assert f'Guide("{page}"' in source, (page, test)


def test_blocks_that_are_not_executed_become_fewer() -> None:
    """There are as many as `house_ceilings.json` says; who executes one more lowers the number."""
    entries = [why for page in listed("unexecuted").values() for why in page.values()]
    assert all(len(why) > len("likewise") - 1 for why in entries)
    assert len(entries) == json.loads(CEILINGS.read_text(encoding="utf-8"))["blocks not executed"]


def test_a_guide_sees_what_nobody_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that the test of its page leaves out fails it; the reason of one that cannot be executed does not."""
    page = next(page for page in listed("unexecuted") if page.startswith("docs/guides/"))
    with pytest.raises(AssertionError), Guide(page):
        pass
    monkeypatch.setattr("ironauth.tests.docs.blocks.excused", lambda _: True)
    with Guide(page):
        pass


def _shell(text: str) -> None:
    subprocess.run(["sh", "-n"], input=text, check=True, text=True, capture_output=True)


def _javascript(text: str) -> None:
    command = [found("node"), "--input-type=module", "--check"]
    subprocess.run(command, input=text, check=True, text=True, capture_output=True)


def _ini(text: str) -> None:
    configparser.ConfigParser(strict=False, interpolation=None).read_string(text)


def _json(text: str) -> None:
    json.loads(text.split("\n\n", maxsplit=1)[0])


#: What says whether a block is well formed, for those that nobody executes too.
READERS: dict[str, Callable[[str], object]] = {
    "python": ast.parse,
    "sh": _shell,
    "bash": _shell,
    "js": _javascript,
    "json": _json,
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
    "ini": _ini,
    "xml": ET.fromstring,
}
#: What is compiled or loaded by the test of its page alone, or by nobody here.
COMPILED = {"", "text", "go", "ts", "tsx", "nginx", "apache", "sql", "kotlin", "swift", "java"}


@pytest.mark.parametrize("language", sorted({block.language for block in ALL}))
def test_blocks_are_well_formed(language: str) -> None:
    """Each block is what its language says: the language's own reader takes it."""
    if language in COMPILED:
        return
    for block in ALL:
        if block.language == language:
            READERS[language](block.text)
