"""``manage.py breached_passwords``: install a list of passwords known from breaches, and ask it for one."""

import getpass
import sys
from pathlib import Path
from typing import Any, BinaryIO, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from accounts.audit import recording as audit
from accounts.passwords import breached_file
from accounts.passwords.breached import installed, is_breached, path
from ironauth.infrastructure.core.stdio import ignore_broken_pipe


class Command(BaseCommand):
    """Make the list from a file of hashes or words, or tell whether it has a password."""

    help = (
        "Passwords in the list may not be chosen, and people who sign in with one are told. The list is in "
        "IRONAUTH_BREACHED_PASSWORDS (var/breached-passwords); servers take a new one as soon as it is there."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the two subcommands."""
        commands = parser.add_subparsers(dest="command", required=True)
        install = commands.add_parser("install", help="make the list anew from a file")
        install.add_argument(
            "file",
            help="lines of SHA-1 hashes with counts (HASH:COUNT, as the downloader of Pwned Passwords writes them), of "
            "hashes alone, or of passwords; - for standard input. A billion lines take an hour or two",
        )
        install.add_argument(
            "--seen-at-least",
            type=int,
            default=1,
            metavar="N",
            help="leave out hashes with a smaller count: a tenth of the size with 10, 8 bytes for each that is kept",
        )
        commands.add_parser("check", help="tell whether the list has a password, asked for or read from standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked. Raises ``CommandError`` with the remedy."""
        if options["command"] == "check":
            self._check()
        elif options["file"] == "-":
            self._install(sys.stdin.buffer, options["seen_at_least"])
        else:
            try:
                with Path(options["file"]).open("rb") as source:
                    self._install(cast("BinaryIO", source), options["seen_at_least"])
            except OSError as error:
                raise CommandError(f"{error.filename}: {error.strerror}.") from error

    def _install(self, source: BinaryIO, seen_at_least: int) -> None:
        target = path()
        target.parent.mkdir(parents=True, exist_ok=True)
        count = breached_file.build(breached_file.records(source, seen_at_least=seen_at_least), target)
        if not count:
            raise CommandError("There is no password in it: the list stays as it is.")
        try:
            audit.record(audit.Event.BREACHED_LIST_INSTALLED, details={"passwords": count})
        except DatabaseError as error:  # the list may have taken hours, and servers use it by now
            raise CommandError("The list is installed; the audit trail could not be written, and lacks it.") from error
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(f"{count:,} passwords in {target}.")

    def _check(self) -> None:
        if installed() is None:
            raise CommandError(f"There is no list at {path()}: make it with `breached_passwords install FILE`.")
        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
        with ignore_broken_pipe(self.stdout):
            self.stdout.write("The list has it." if is_breached(password) else "The list does not have it.")
