"""``manage.py search_index``: what people are searched by, where the migration could not make it or it was lost."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections

from accounts import search
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from ironauth.infrastructure.db import text_index


class Command(BaseCommand):
    """Build the indexes while the product serves."""

    help = (
        "Build the indexes by which Postgres finds people by part of an address or name (pg_trgm). "
        "Nothing waits for it. Needed only where check says ironauth.W003."
    )
    requires_system_checks = ()

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Build what is missing.

        Raises:
            CommandError: The extension is missing and may not be created.
            OperationalError: A long transaction, such as a backup, kept the table from being changed.
        """
        connection = connections[DEFAULT_DB_ALIAS]
        with ignore_broken_pipe(self.stdout):
            if connection.vendor != "postgresql":
                self.stdout.write("Nothing to do: SQLite has no such index.")
                return
            for index in search.INDEXES:
                if not text_index.is_stored(connection, index):
                    text_index.store(connection, index)
                if not text_index.build(connection, index):
                    raise CommandError(search.REMEDY)
                self.stdout.write(f"{index.name}: there")
