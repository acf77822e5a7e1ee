"""``manage.py end_everybodys_sessions``: everybody is signed out at once, after a break-in for example."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.sessions.ends import clocks, of_everybody


class Command(BaseCommand):
    """End every session, and write it to the rows of all; or say how far that is."""

    help = (
        "End the sessions of everybody at once, those of staff too. Their rows follow in batches, by this command and "
        "by running servers; it may be interrupted. --status says how far that is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --confirm, --despite-clocks and --status."""
        parser.add_argument("--confirm", metavar="PHRASE", help=f'to go on: "{of_everybody.PHRASE}"')
        parser.add_argument(
            "--despite-clocks",
            action="store_true",
            help="by this machine's clock, though it seems to be wrong; do it again once the clocks are right",
        )
        parser.add_argument("--status", action="store_true", help="end nothing; say how far the newest end is")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, and print how far it is."""
        if not options["status"]:
            if options["confirm"] != of_everybody.PHRASE:
                raise CommandError(f'Nothing was done. To go on: --confirm "{of_everybody.PHRASE}"')
            try:
                of_everybody.begin(actor_id=None, despite_clocks=options["despite_clocks"])
            except clocks.ClockIsWrongError as error:
                raise CommandError(f"{error} To end them all the same: --despite-clocks") from error
            more = True
            while more:
                with transaction.atomic():
                    more = of_everybody.end_batch()
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(of_everybody.progress() or "Everybody's sessions were never ended.")
