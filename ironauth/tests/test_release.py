"""What a release says of itself: one version everywhere, and files for contributors that name what there is."""

import itertools
import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
from django.conf import settings

from ironauth.version import VERSION

ROOT = Path(settings.BASE_DIR)
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASES = re.findall(r"^## \[(\d+)\.(\d+)\.(\d+)\] - (\S+)$", CHANGELOG, re.MULTILINE)
TEXTS = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
#: What the programs write, and no checkout has.
WRITTEN = {"var/sbom.cdx.json"}


def test_the_version_is_one() -> None:
    """pyproject.toml and the changelog's newest release say what ``/health`` says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert {project, ".".join(RELEASES[0][:3])} == {VERSION}


def test_the_changelog_goes_backwards() -> None:
    """Whatever is not released stands first, then the releases, the newest first, each with its day."""
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert len(headings) == 1 + len(RELEASES)
    versions = [tuple(map(int, release[:3])) for release in RELEASES]
    days = [date.fromisoformat(release[3]) for release in RELEASES]
    assert all(newer > older for newer, older in itertools.pairwise(versions))
    assert all(newer >= older for newer, older in itertools.pairwise(days))


@pytest.mark.parametrize("name", TEXTS)
def test_what_the_texts_name_is_there(name: str) -> None:
    """Each target of make, each file and each command that they tell people to use exists."""
    text = re.sub(r"https?://\S+", "", (ROOT / name).read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", text, re.MULTILINE)) <= targets
    files = set(re.findall(r"(?<![\w./-])[\w.-]+(?:/[\w.-]+)+\.(?:py|md|txt|json|example)\b", text))
    assert {file for file in files - WRITTEN if not (ROOT / file).is_file()} == set()
    commands = set(re.findall(r"manage\.py\s([a-z_]+)", text))
    places = ("accounts", "ironauth", "tokens")
    ours = {file.stem for place in places for file in (ROOT / place / "management" / "commands").glob("[a-z]*.py")}
    assert commands <= {*ours, "migrate"}


def test_every_promise_names_the_tests_that_prove_it() -> None:
    """No row of the table in SECURITY.md is a promise alone."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("| promise | tests |\n|---|---|\n")[2]
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), table.splitlines()))
    assert rows
    assert [row for row in rows if not re.search(r"\| `\w+(?:/\w+)*/tests/test_\w+\.py`", row)] == []
