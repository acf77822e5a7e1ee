"""``manage.py backup FILE``: a whole copy of the SQLite database, taken while it is served."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from ironauth.infrastructure.core.stdio import ignore_broken_pipe


class Command(BaseCommand):
    """Copy the database at one instant; nobody who reads or writes it waits."""

    help = "Copy the SQLite database to a new file, mode 0600, while it is served; Postgres has pg_dump for that."
    # Django's check of JSON fields writes, so it fails while anyone else's write transaction is open.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file."""
        parser.add_argument("file", type=Path, help="where the copy goes; nothing may be there yet")

    def handle(self, *args: Any, **options: Any) -> None:
        """Copy, and say how much; raises ``CommandError`` where there is nothing to copy or no place for it."""
        if connection.vendor != "sqlite":
            raise CommandError("DATABASE_URL names no SQLite file: back Postgres up with pg_dump --format=custom.")
        target = options["file"]
        try:
            size = copy(Path(connection.settings_dict["NAME"]), target)
        except FileExistsError as error:
            there = error.filename2 or error.filename  # or what a copy that was killed has left
            raise CommandError(f"{there} is there already: choose a new name, with the date in it.") from error
        except (OSError, ValueError, sqlite3.Error) as error:
            raise CommandError(f"No copy was made ({error}): is there room, and may this user write there?") from error
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(f"{target}: {size:,} bytes, whole. Keep SECRET_KEY and the master keys elsewhere.")


def copy(source: Path, target: Path) -> int:
    """Copy the database ``source`` as it is at one instant to ``target``, durably, and return the copy's bytes.

    The copy appears under its name when it is whole and has been checked.

    Args:
        source: The database file, which may be in use.
        target: A path on a disk with room for all of it.

    Raises:
        FileExistsError: There is a file at ``target``.
        OSError: The copy cannot be written.
        ValueError: ``target`` has no name.
        sqlite3.Error: ``source`` cannot be read, or the copy is not whole.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        # SQLite's own copy reads one snapshot; in WAL mode writers go on beside it (sqlite.org/backup.html).
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as served,
            closing(sqlite3.connect(unfinished)) as copied,
        ):
            served.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")  # one file, without a -wal to be forgotten
            found = copied.execute("PRAGMA quick_check").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(f"the copy is damaged: {found}")
        _sync(unfinished)
        os.link(unfinished, target)  # unlike a rename it never replaces what is there
        _sync(target.parent)
        return target.stat().st_size
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def _sync(path: Path) -> None:
    """Have the system write a file, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
