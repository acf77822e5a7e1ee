"""What a release says of itself: one version everywhere, and files for contributors that name what there is."""

import itertools
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
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


def test_the_packages_say_what_the_repository_says_of_a_licence() -> None:
    """Without a LICENSE file each package grants no rights, as the README says; with one each is under it."""
    python = [
        tomllib.loads((ROOT / name).read_text(encoding="utf-8"))["project"]
        for name in ("pyproject.toml", "clients/python/pyproject.toml")
    ]
    told = {one["license"].removeprefix("LicenseRef-") for one in python}
    told.add(json.loads((ROOT / "clients/typescript/package.json").read_text())["license"])
    assert len(told) == 1
    chosen = (ROOT / "LICENSE").exists()
    assert (told != {"UNLICENSED"}) is chosen
    assert ("A licence has not been chosen yet" not in (ROOT / "README.md").read_text(encoding="utf-8")) is chosen


def test_the_supported_version_is_the_newest() -> None:
    """SECURITY.md names the newest minor version, and no other, as mended."""
    rows = re.findall(r"^\| (\d+\.\d+)\.x \| yes \|$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [VERSION.rpartition(".")[0]]


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
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    programs = re.search(r"^LAB_PROGRAMS := (.+)$", makefile, re.MULTILINE)
    assert programs
    targets = {*re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE), *programs.group(1).split()}
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", text, re.MULTILINE)) <= targets
    files = set(re.findall(r"(?<![\w./-])[\w.-]+(?:/[\w.-]+)+\.(?:py|md|txt|json|example)\b", text))
    assert {file for file in files - WRITTEN if not (ROOT / file).is_file()} == set()
    commands = set(re.findall(r"manage\.py\s([a-z_]+)", text))
    places = ("accounts", "ironauth", "tokens", "clients/python/ironauth_client/django")
    ours = {file.stem for place in places for file in (ROOT / place / "management" / "commands").glob("[a-z]*.py")}
    assert commands <= {*ours, "migrate"}


def test_every_promise_names_the_tests_that_prove_it() -> None:
    """No row of the table in SECURITY.md is a promise alone."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("| promise | tests |\n|---|---|\n")[2]
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), table.splitlines()))
    assert rows
    assert [row for row in rows if not re.search(r"\| `\w+(?:/\w+)*/tests/test_\w+\.py`", row)] == []


def _replace(file: Path, old: str, new: str) -> None:
    """Change one text of a file, which must be there."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


#: What is wrong with a release -> the change to a checkout that makes it so, and what is said of it.
WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "a client of another version": (
        lambda here: _replace(here / "clients/python/pyproject.toml", f'version = "{VERSION}"', 'version = "9.9.9"'),
        "clients/python/pyproject.toml has version 9.9.9",
    ),
    "a changelog without it": (
        lambda here: _replace(here / "CHANGELOG.md", f"## [{VERSION}]", "## [9.9.9]"),
        "the newest version in CHANGELOG.md is 9.9.9",
    ),
    "lines that belong to no version": (
        lambda here: _replace(here / "CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- Something.\n"),
        "CHANGELOG.md has lines under Unreleased",
    ),
}


def git(folder: Path, *arguments: str) -> None:
    """Run git in ``folder`` as somebody."""
    who = ["-c", "user.name=Mia", "-c", "user.email=mia@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of its own of what a release looks at, committed, with nothing under *Unreleased*."""
    folder = tmp_path / "ironauth"
    for name in (
        ".gitignore", ".ci/release", "CHANGELOG.md", "pyproject.toml", "clients/python/pyproject.toml",
        "ironauth/__init__.py", "ironauth/version.py",
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    text = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.sub(r"(?ms)^(## \[Unreleased\]\n).*?(?=^## )", r"\1\n", text)
    (folder / "CHANGELOG.md").write_text(released, encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All")
    return folder


def release(folder: Path, *arguments: str) -> str:
    """Begin a release, which must not come further than looking; return what it says."""
    command = ["sh", ".ci/release", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={"PATH": "/usr/bin:/bin", "BIN": str(Path(sys.executable).parent)}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert not (folder / "var").exists()
    return done.stderr


@pytest.mark.parametrize("case", WRONG)
def test_a_release_of_two_versions_is_refused(checkout: Path, case: str) -> None:
    """Nothing is built of a version that one place does not know."""
    change, said = WRONG[case]
    change(checkout)
    git(checkout, "commit", "--quiet", "--all", "--message", "Wrong")
    assert said in release(checkout)


def test_a_release_is_of_what_is_committed(checkout: Path) -> None:
    """A changed file, and a tag on another commit, are refused."""
    _replace(checkout / "CHANGELOG.md", "# Changelog", "# Changes")
    assert "not committed" in release(checkout)
    git(checkout, "tag", f"v{VERSION}")
    git(checkout, "commit", "--quiet", "--all", "--message", "Later")
    assert f"the tag v{VERSION} is on another commit" in release(checkout)


def test_an_unknown_option_of_a_release_is_refused(checkout: Path) -> None:
    """A misspelt option builds nothing."""
    assert "unknown option --with-image" in release(checkout, "--with-image")


@pytest.mark.parametrize(
    ("built", "status", "said"),
    [
        ("echo sha256:1 > $IMAGE_OUT/ironauth-1.oci.tar.digest", 0, "The image's digest: sha256:1"),
        ("echo first >&2; echo 'image: no buildah' >&2; exit 3", 0, "Without an image: image: no buildah"),
        ("echo 'image: the build failed' >&2; exit 1", 1, "release: the image is wrong (above)"),
    ],
)  # fmt: skip
def test_a_release_tells_the_image_or_why_there_is_none(tmp_path: Path, built: str, status: int, said: str) -> None:
    """The last line is its digest, or what was missing here; an image that does not work ends the release."""
    text = (ROOT / ".ci" / "release").read_text(encoding="utf-8")
    parts = re.findall(r"(?ms)^if \[ -z \"\$left_out\" \]; then\n.*?^fi$", text)
    assert len(parts) == 2
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "image").write_text(f"{built}\n", encoding="utf-8")
    start = f"set -eu; out={tmp_path} scratch={tmp_path} BIN=x base= left_out= version=1\nsay() {{ :; }}\n"
    fail = text[text.index("fail() {") : text.index("say() {")]
    done = subprocess.run(
        ["sh", "-c", start + fail + "\n".join(parts)], cwd=tmp_path, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == status
    assert said in done.stdout.splitlines()[-1]
