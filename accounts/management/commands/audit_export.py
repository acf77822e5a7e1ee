"""``manage.py audit_export``: the audit trail as JSON lines, for an archive or another system."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.dateparse import parse_datetime

from accounts.audit import queries as audit_queries
from accounts.audit.exporting import archived
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from ironauth.infrastructure.db.unit_of_work import LATER_S

#: Seconds after which nothing is added before an event: the longest an event that no answer waits for may lie in a
#: queue, and half as long again for a transaction to end and clocks to differ.
SETTLED_S: Final = LATER_S * 1.5


class Command(BaseCommand):
    """Write events to standard output, the oldest first, one JSON object in a line."""

    help = (
        "Write the audit trail to standard output as JSON lines, the oldest event first, with ids and no addresses. "
        "Only ASCII characters, everything else escaped: no name or user agent can end a line or move a terminal's "
        "cursor."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --since and --until."""
        parser.add_argument("--since", metavar="TIME", help="events from this time on, e.g. 2026-11-01T00:00:00Z")
        parser.add_argument(
            "--until",
            metavar="TIME",
            help=f"events before this time (default: {SETTLED_S:.0f} s ago). Younger ones may be added after this "
            "export, and a later export that begins at this time would miss them",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Write what there is; many short queries, so that nobody waits for a long one. Raises ``CommandError``."""
        since = _moment(options["since"], "--since") if options["since"] else None
        settled = clock.now() - timedelta(seconds=SETTLED_S)
        until = _moment(options["until"], "--until") if options["until"] else settled
        events = audit_queries.filtered({"since": since})
        with ignore_broken_pipe(self.stdout):
            for part in archived(events, until=first_id_at(until)):
                self.stdout.write(part.decode(), ending="")


def _moment(text: str, option: str) -> datetime:
    """Return the time in ``text``, UTC unless it says otherwise."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise CommandError(f"{option} {text!r} is no time: write one like 2026-11-01T00:00:00Z.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
