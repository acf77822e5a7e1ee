"""``manage.py adopt_users FILE``: this site's users, by the names that they have at the server."""

from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ironauth_client.django import adoption
from ironauth_client.django.conf import setting

SHOWN: Final = 10


class Command(BaseCommand):
    """Adopt; may be run again with a newer file."""

    help = (
        "Name for each user who they are at IronAuth, from the file that `export_users` wrote there. May run again, "
        "with a new file. Exit status 1, and nothing taken away, where somebody is another user here."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file."""
        parser.add_argument("file", type=Path, help="what `manage.py export_users FILE` of IronAuth wrote")
        parser.add_argument("--source", default="django", help="as what they were imported there (default: django)")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="make people who are another user here the one that they were imported as; their sign-ins end",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Adopt; raises ``CommandError`` for a file that is none, and for people who are another user here."""
        issuer = setting("ISSUER")
        try:
            with options["file"].open(encoding="utf-8") as lines:
                done = adoption.adopt(lines, issuer=issuer, source=options["source"], replace=options["replace"])
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{done.adopted:,} users adopted, {done.known:,} known before")
        if done.replaced:
            self.stdout.write(f"{done.replaced:,} people who were another user here are the one they were imported as")
        if done.strangers:
            self.stdout.write(f"{done.strangers:,} people in the file have no user here")
        self._left_over(issuer)
        if done.conflicts:
            shown = [f"{subject} is user {has}, imported as {was}" for subject, has, was in done.conflicts[:SHOWN]]
            raise CommandError(
                f"{len(done.conflicts):,} people are another user here, as they signed in before they were adopted.\n"
                f"--replace makes them the one they were imported as.\n" + "\n".join(shown)
            )

    def _left_over(self, issuer: str) -> None:
        left = adoption.left_over(issuer)
        if count := left.count():
            keys = ", ".join(map(str, left[:SHOWN])) + (", …" if count > SHOWN else "")
            why = "not moved in, or not in this file"
            self.stdout.write(f"{count:,} users here are nobody at {issuer}: {why} ({keys})")
