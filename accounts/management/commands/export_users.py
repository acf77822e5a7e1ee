"""``manage.py export_users FILE``: everybody, for another installation or another system."""

from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts.audit import recording as audit
from accounts.transfer import export
from ironauth.infrastructure.core.stdio import ignore_broken_pipe


class Command(BaseCommand):
    """Write everybody as JSON lines; the trail says that somebody had them."""

    help = (
        "Write everybody as JSON lines, in the form that `import_users --from jsonl` reads. With --secrets also their "
        "password hashes, authenticator apps and recovery codes: keep such a file as you keep the database."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file."""
        parser.add_argument("file", type=Path, help="a new file, made readable for its owner alone")
        parser.add_argument("--secrets", action="store_true", help="also password hashes, authenticator apps and codes")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write; raises ``CommandError`` when the file cannot be made or is there already."""
        path: Path = options["file"]
        try:
            path.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise CommandError(f"The file cannot be made: {error}. Choose one that does not exist.") from error
        count = 0
        with path.open("wb") as file:
            for line in export.people(secrets=options["secrets"]):
                file.write(msgspec.json.encode(line) + b"\n")
                count += 1
        with transaction.atomic():
            details = {"people": count, "secrets": options["secrets"]}
            audit.record(audit.Event.USERS_EXPORTED, details=details)
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(f"{count:,} people written to {options['file']}")
