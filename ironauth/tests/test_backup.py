"""Backups of a database that is in use."""

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from ironauth.management.commands import backup

INSERTS = ("INSERT INTO one VALUES (?, hex(randomblob(2000)))", "INSERT INTO other VALUES (?, hex(randomblob(2000)))")
COUNTS = ("SELECT count(*), max(n) FROM one", "SELECT count(*), max(n) FROM other")


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A database in WAL mode, as it is served, with two tables that say the same."""
    path = tmp_path / "served.sqlite3"
    with closing(sqlite3.connect(path)) as made:
        made.executescript("PRAGMA journal_mode=WAL; CREATE TABLE one (n, filler); CREATE TABLE other (n, filler);")
    return path


def test_a_copy_is_of_one_instant_while_somebody_writes(served: Path, tmp_path: Path) -> None:
    """Every transaction is in it as a whole or not at all, and the writer never waited for it."""
    done, refused, written = threading.Event(), [], threading.Semaphore(0)

    def write() -> None:
        with closing(sqlite3.connect(served, timeout=0, autocommit=True)) as writer:
            number = 0
            while not done.is_set():
                number += 1
                try:
                    writer.execute("BEGIN IMMEDIATE")
                    for insert in INSERTS:
                        writer.execute(insert, (number,))
                    writer.execute("COMMIT")
                    written.release()
                except sqlite3.OperationalError as error:
                    refused.append(error)
                    return

    writing = threading.Thread(target=write)
    writing.start()
    try:
        sizes = [backup.copy(served, tmp_path / "copy-0")]
        while written.acquire(blocking=False):
            pass
        assert written.acquire(timeout=10)  # a disk may be slow for a moment: the last copy is to be a larger one
        sizes += [backup.copy(served, tmp_path / f"copy-{number}") for number in range(1, 20)]
    finally:
        done.set()
        writing.join()
    assert not refused
    counts = []
    for number in range(20):
        with closing(sqlite3.connect(tmp_path / f"copy-{number}")) as copied:
            one, other = (copied.execute(count).fetchone() for count in COUNTS)
        assert one == other
        counts.append(one[0])
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
    assert sizes[-1] > sizes[0]


def test_a_copy_is_for_its_owner_alone_and_replaces_nothing(served: Path, tmp_path: Path) -> None:
    """Mode 0600, one file, nothing left over; what is there stays."""
    target = tmp_path / "copy"
    backup.copy(served, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with closing(sqlite3.connect(target)) as copied:
        assert copied.execute("SELECT count(*) FROM one").fetchone() == (0,)
    before = target.read_bytes()
    with pytest.raises(FileExistsError):
        backup.copy(served, target)
    assert target.read_bytes() == before
    mine = [path.name for path in tmp_path.iterdir() if not path.name.startswith(served.name)]
    assert mine == [target.name]


def test_what_cannot_be_copied(tmp_path: Path) -> None:
    """A database that is none, or nowhere, leaves no file behind."""
    (tmp_path / "text").write_text("this is no database, and long enough to be read as one" * 20)
    for source in ("text", "nowhere"):
        with pytest.raises(sqlite3.Error):
            backup.copy(tmp_path / source, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
def test_the_command(tmp_path: Path) -> None:
    """On SQLite it copies, once; on Postgres it names the way."""
    target = tmp_path / "copy"
    if connection.vendor != "sqlite":
        with pytest.raises(CommandError, match="pg_dump"):
            call_command("backup", str(target))
        return
    call_command("backup", str(target))
    with closing(sqlite3.connect(target)) as copied:
        assert copied.execute("SELECT count(*) FROM accounts_user").fetchone() == (0,)
    with pytest.raises(CommandError, match="/copy is there already"):
        call_command("backup", str(target))
    (tmp_path / ".other.unfinished").touch()
    with pytest.raises(CommandError, match=r"\.other\.unfinished is there already"):
        call_command("backup", str(tmp_path / "other"))
    for nowhere in (str(tmp_path / "no" / "such" / "folder"), "", "/"):
        with pytest.raises(CommandError, match="No copy was made"):
            call_command("backup", nowhere)
