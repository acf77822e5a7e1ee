"""``manage.py partition_audit``: the trail's table in months, where the migration found it too large."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

from accounts.audit import partitions
from ironauth.infrastructure.core.stdio import ignore_broken_pipe


class Command(BaseCommand):
    """Partition the audit trail while the product serves."""

    help = (
        "Make the audit trail's table on Postgres a partitioned one, a month each. It reads the trail once and writes "
        "none of it. Everything serves meanwhile. Needed only where check says ironauth.W004."
    )
    requires_system_checks = ()

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Partition it, unless that is done.

        Raises:
            CommandError: Others kept the table locked all the time.
        """
        connection = connections[DEFAULT_DB_ALIAS]
        with ignore_broken_pipe(self.stdout):
            try:
                done = partitions.convert(connection, say=self.stdout.write)
            except OperationalError as error:
                raise CommandError(f"{error}".strip() + ": nothing was changed; run it again later") from error
            if not done:
                self.stdout.write("Nothing to do.")
            for one in partitions.partitions(connection) if connection.vendor == "postgresql" else ():
                self.stdout.write(f"{one.name}: about {one.events} events")
