"""Which commits are the previous release, their files in a folder of their own, their commands and servers."""

import subprocess
import sys
import tarfile
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from perf.rig.processes import Server, StartError, free_port
from perf.rig.site_setup import ROOT, prepare

_FOLDER = "/migrations/"


class Release(NamedTuple):
    """A commit, and the migrations that this working copy has and it has not, as paths."""

    commit: str
    subject: str
    missing: tuple[str, ...]

    def __str__(self) -> str:
        """Return what the report calls it."""
        return f"{self.commit[:12]} ({self.subject})"


def previous(root: Path = ROOT) -> list[Release]:
    """Return the commit before this one, and the newest whose migrations are fewer, newest first.

    Commits are those of the first parents: what was merged was served, what was on its way to a merge was not. One that
    has a migration which was renamed or dropped since is no release: no database of it can be brought here.

    Raises:
        StartError: there is no git, no history, or not enough of it.
    """
    ours, head = _ours(root), _git(root, "rev-parse", "HEAD").strip()
    found: list[Release] = []
    for commit in _git(root, "rev-list", "--first-parent", "HEAD").split():
        theirs = _named(_git(root, "ls-tree", "-r", "--name-only", commit).split("\n"))
        fewer = theirs < ours
        if fewer or (theirs == ours and not found and commit != head):
            found.append(_release(root, commit, ours - theirs))
        if fewer:
            return found
    shallow = _git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    missing = "this clone is shallow: git fetch --unshallow" if shallow else "every commit has the same"
    raise StartError(f"There is no commit with fewer migrations to upgrade from ({missing})")


def release(name: str, root: Path = ROOT) -> Release:
    """Return the commit of that name.

    Raises:
        StartError: there is none, or it has migrations that this working copy has not.
    """
    commit = _git(root, "rev-parse", "--verify", f"{name}^{{commit}}").strip()
    ours, theirs = _ours(root), _named(_git(root, "ls-tree", "-r", "--name-only", commit).split("\n"))
    if unknown := sorted(theirs - ours):
        raise StartError(
            f"{name} cannot be upgraded from: it has {', '.join(unknown)}, which were renamed or dropped since"
        )
    return _release(root, commit, ours - theirs)


def unpack(release: Release, folder: Path, root: Path = ROOT) -> None:
    """Write the files of a commit into ``folder``."""
    packed = _run(root, "archive", "--format=tar", release.commit)
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def requirements_differ(folder: Path, root: Path = ROOT) -> bool:
    """Return whether a commit's runtime requirements are not all among this one's, at the same versions."""
    return not _pins(folder) <= _pins(root)


def _pins(root: Path) -> set[str]:
    lines = (root / "requirements" / "base.txt").read_text(encoding="utf-8").splitlines()
    return {line.split(" ")[0] for line in lines if "==" in line and not line.startswith((" ", "#"))}


def _release(root: Path, commit: str, missing: set[str]) -> Release:
    return Release(commit, _git(root, "log", "-1", "--format=%s", commit).strip(), tuple(sorted(missing)))


def _ours(root: Path) -> set[str]:
    """Return the migrations of the working copy, committed or not."""
    return _named(
        _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "--", "*/migrations/*").split("\n")
    )


def _named(paths: list[str]) -> set[str]:
    """Keep those paths that are migrations."""
    return {
        path for path in paths
        if _FOLDER in path and path.rpartition("/")[2][:4].isdigit()
    }  # fmt: skip


def _git(root: Path, *arguments: str) -> str:
    return _run(root, *arguments).decode()


def _run(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise StartError("git is not installed: apt-get install git") from error
    if done.returncode:
        raise StartError(f"git {arguments[0]}: {done.stderr.decode().strip()} (the history is needed: clone with git)")
    return done.stdout


@dataclass(frozen=True)
class Code:
    """A release in a folder, and the Python with its requirements."""

    folder: Path
    python: str
    environment: dict[str, str]

    def manage(self, *arguments: str) -> str:
        """Run a command of ``manage.py`` and return what it prints.

        Raises:
            StartError: it failed.
        """
        return prepare(["manage.py", *arguments], self.environment, folder=self.folder, python=self.python)

    def serve(self, log: Path, stack: ExitStack) -> str:
        """Start its server, which ``stack`` ends, and return its origin.

        Raises:
            StartError: it ended early or stayed silent.
        """
        port = free_port()
        command = [self.python, "manage.py", "serve", "--workers", "1", "--port", str(port)]
        server = Server(command, folder=self.folder, port=port, environment=self.environment, log=log)
        return f"http://{stack.enter_context(server).host}"


def python_for(code: Path) -> str:
    """Return the Python that runs a commit: ours, or one with its own requirements, installed in its folder.

    Raises:
        StartError: they could not be.
    """
    if not requirements_differ(code):
        return sys.executable
    done = subprocess.run(
        ["sh", "requirements/install.sh", "base"], cwd=code, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StartError(f"its requirements could not be installed: {done.stdout}{done.stderr}")
    return str(code / ".venv" / "bin" / "python")
