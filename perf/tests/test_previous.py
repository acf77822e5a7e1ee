"""The previous release is found in the history: the commit before, and the newest that has fewer migrations."""

import subprocess
from pathlib import Path

import pytest

from perf.previous import history
from perf.rig.processes import StartError

MIGRATION = "accounts/migrations/{}.py"


class Repository:
    """A git repository whose commits have the migrations named, and nothing else but their requirements."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("config", "user.name", "Mia")
        self.git("config", "user.email", "mia@example.com")

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.root), *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    def write(self, *names: str) -> None:
        folder = self.root / "accounts" / "migrations"
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        for name in ("__init__", *names):
            (folder / f"{name}.py").write_text("")

    def commit(self, *names: str) -> str:
        self.write(*names)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"With {len(names)}")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_the_commit_before_and_the_newest_with_fewer_migrations(repository: Repository) -> None:
    """Commits between them add nothing; one with a migration that was renamed since was no release."""
    fewer = repository.commit("0001_a")
    repository.commit("0001_a", "0002_old_name")
    repository.commit("0001_a", "0002_b")
    before = repository.commit("0001_a", "0002_b")
    repository.commit("0001_a", "0002_b")
    found = history.previous(repository.root)
    assert [one.commit for one in found] == [before, fewer]
    assert [one.missing for one in found] == [(), (MIGRATION.format("0002_b"),)]
    renamed = repository.git("rev-parse", "HEAD~3")
    with pytest.raises(StartError, match="0002_old_name"):
        history.release(renamed, repository.root)
    assert history.release(fewer[:12], repository.root) == found[1]


def test_a_migration_that_is_not_committed_counts(repository: Repository) -> None:
    """It makes the present commit the previous release, so that it can be tried before it is committed."""
    repository.commit("0001_a")
    head = repository.commit("0001_a")
    repository.write("0001_a", "0002_b")
    assert [one.commit for one in history.previous(repository.root)] == [head]


def test_without_its_history_it_says_what_is_missing(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A shallow clone, a history without a change of migrations, and a folder without git."""
    repository.commit("0001_a")
    repository.commit("0001_a", "0002_b")
    shallow = tmp_path_factory.mktemp("shallow")
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(shallow))
    with pytest.raises(StartError, match="git fetch --unshallow"):
        history.previous(shallow)
    repository.git("checkout", "--quiet", "HEAD~1")
    with pytest.raises(StartError, match="every commit has the same"):
        history.previous(repository.root)
    with pytest.raises(StartError, match="clone with git"):
        history.previous(tmp_path_factory.mktemp("bare"))


def test_files_and_requirements_of_a_commit(repository: Repository, tmp_path: Path) -> None:
    """Fewer requirements are served by ours; another version is not."""
    pins = repository.root / "requirements" / "base.txt"
    pins.parent.mkdir()
    pins.write_text("django==6.1 \\\n    --hash=sha256:1\n")
    repository.commit("0001_a")
    then = tmp_path / "then"
    history.unpack(history.release("HEAD", repository.root), then, repository.root)
    assert (then / MIGRATION.format("0001_a")).is_file()
    pins.write_text("django==6.1 \\\n    --hash=sha256:1\nmsgspec==0.21 \\\n    --hash=sha256:2\n")
    assert not history.requirements_differ(then, repository.root)
    pins.write_text("django==6.2 \\\n    --hash=sha256:1\n")
    assert history.requirements_differ(then, repository.root)
