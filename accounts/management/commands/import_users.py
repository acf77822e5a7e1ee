"""``manage.py import_users FILE --from keycloak``: people of another system become accounts here."""

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from accounts.transfer import records as outcomes
from accounts.transfer import services
from accounts.transfer.identities import IdentityMap
from accounts.transfer.models import UserImport
from accounts.transfer.records import MalformedError, Note, Reason
from accounts.transfer.services import RecordOutcome
from accounts.transfer.sources import Options, people
from accounts.transfer.sources.registry import SOURCES
from ironauth.config import storage
from ironauth.infrastructure.core.stdio import ignore_broken_pipe

_WORDS: Final = {
    outcomes.CREATED: "created",
    outcomes.UPDATED: "brought up to date",
    outcomes.UNCHANGED: "imported before, left as they are",
    outcomes.IN_USE: "imported before and signed in since, left as they are",
    **{reason.value: f"refused: {reason.words}" for reason in Reason},
    **{note.value: note.words for note in Note},
}
_NOTES: Final = frozenset(note.value for note in Note)
_PROGRESS_S: Final = 1.0


class Command(BaseCommand):
    """Import the people of another system; may be interrupted and run again."""

    help = (
        "Make accounts of the people in another system's export: "
        + "; ".join(f"{source.name}: {source.reads}" for source in SOURCES.values())
        + ". Run it with --dry-run first. People imported before are left alone: after an interruption run it again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file, its system, and what to do."""
        parser.add_argument("file", nargs="?", type=Path, help="the export")
        parser.add_argument("--from", dest="source", choices=list(SOURCES), help="the system it comes from")
        parser.add_argument("--dry-run", action="store_true", help="judge everybody and write nothing")
        parser.add_argument(
            "--update",
            action="store_true",
            help="also overwrite name, state and password of people imported before who have not signed in since",
        )
        parser.add_argument(
            "--report",
            type=Path,
            help="write a JSON line for each record: number, id there, id here, outcome, notes",
        )
        parser.add_argument(
            "--report-addresses",
            action="store_true",
            help="with --report: also the e-mail address that the record has, to tell people by",
        )
        parser.add_argument(
            "--hash-config", type=Path, help="Firebase's password hash parameters, as its console has them"
        )
        parser.add_argument(
            "--identities",
            action="append",
            default=[],
            metavar="ALIAS=SLUG",
            help="link identities at the provider that the file calls ALIAS to the one called SLUG here; once for each",
        )
        parser.add_argument("--database", help="pull from a live Django database with this URL, instead of a file")
        parser.add_argument(
            "--undo", type=uuid.UUID, metavar="IMPORT", help="delete the accounts of an import that nobody has used yet"
        )
        parser.add_argument("--list", action="store_true", help="list the imports")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import, undo or list; raises ``CommandError`` with the remedy."""
        with ignore_broken_pipe(self.stdout):
            if options["list"]:
                self._list()
            elif options["undo"]:
                self._undo(options["undo"])
            else:
                self._import(options)

    def _import(self, options: dict[str, Any]) -> None:
        source, path = SOURCES.get(options["source"] or ""), options["file"]
        if source is None:
            raise CommandError(f"Say which system the people come from: --from {'|'.join(SOURCES)}.")
        if (path is None) == (options["database"] is None):
            raise CommandError("Give the export's file, or --database with --from django.")
        if options["database"] and source.name != "django":
            raise CommandError("--database goes with --from django only.")
        if options["report_addresses"] and options["report"] is None:
            raise CommandError("--report-addresses goes with --report FILE, which the addresses are written to.")
        try:
            identities = IdentityMap(options["identities"])
        except MalformedError as error:
            raise CommandError(str(error)) from error
        run = None if options["dry_run"] else UserImport.objects.create(source=source.name)
        with ExitStack() as stack:
            report = _report(stack, options["report"], with_addresses=options["report_addresses"])
            tell = _Progress(self, report)
            try:
                asked = Options(options["hash_config"], _database(options["database"]))
                found = people(source, path or Path(), asked)
                counts = services.import_people(
                    found, source=source.name, run=run, update=options["update"], identities=identities, tell=tell
                )
            except (MalformedError, OSError, UnicodeDecodeError, DatabaseError, ImproperlyConfigured) as error:
                if run is not None and not tell.count:
                    run.delete()
                done = f" {tell.count:,} records were done; run it again to go on." if tell.count else ""
                raise CommandError(f"{error}{done}") from error
        self._summary(counts, tell.count, run)
        for alias, count in identities.unmapped.most_common():
            self.stdout.write(f"    --identities {alias}=SLUG is missing for {count:,} in the file")

    def _summary(self, counts: Counter[str], records: int, run: UserImport | None) -> None:
        self.stdout.write(f"{records:,} records{'' if run else ', nothing written (dry run)'}")
        for code, count in sorted(counts.items(), key=lambda item: (item[0] in _NOTES, -item[1])):
            words = "would be created" if code == outcomes.CREATED and run is None else _WORDS[code]
            self.stdout.write(f"{'    of them' if code in _NOTES else '  '}{count:>9,}  {words}")
        if run is not None:
            self.stdout.write(f"import {run.pk}; to take it back: manage.py import_users --undo {run.pk}")

    def _undo(self, run_id: uuid.UUID) -> None:
        run = UserImport.objects.filter(pk=run_id).first()
        if run is None:
            raise CommandError("There is no such import: --list shows them.")
        deleted, kept = services.undo(run)
        self.stdout.write(f"{deleted:,} accounts deleted; {kept:,} kept, because their people have used them.")

    def _list(self) -> None:
        for run in UserImport.objects.all():
            state = "undone" if run.undone_at else "finished" if run.finished_at else "interrupted"
            created = run.counts.get(outcomes.CREATED, 0)
            self.stdout.write(
                f"{run.pk}  {run.started_at:%Y-%m-%d %H:%M}  {run.source:9} {created:>9,} created  {state}"
            )


class _Progress:
    """Counts records, shows how far it is once a second, and writes the report."""

    def __init__(self, command: BaseCommand, report: Callable[[RecordOutcome], None]) -> None:
        self.count = 0
        self._command, self._report = command, report
        self._began = self._shown = time.monotonic()

    def __call__(self, told: RecordOutcome) -> None:
        """Take note of one record."""
        self.count += 1
        self._report(told)
        now = time.monotonic()
        if now - self._shown >= _PROGRESS_S:
            self._shown = now
            rate = self.count / (now - self._began)
            self._command.stderr.write(f"{self.count:,} records, {rate:,.0f} a second")


def _report(stack: ExitStack, path: Path | None, *, with_addresses: bool) -> Callable[[RecordOutcome], None]:
    """Return what writes a record's outcome to the report, where one is asked for."""
    if path is None:
        return lambda _: None
    try:
        # The owner's alone, if it is made now: it may have people's addresses.
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        file = stack.enter_context(os.fdopen(made, "wb"))
    except OSError as error:
        raise CommandError(f"The report cannot be written: {error}") from error

    def write(told: RecordOutcome) -> None:
        line = {
            "record": told.number,
            "id": told.external_id,
            **({"email": told.email} if with_addresses else {}),
            "user_id": told.user_id,
            "outcome": told.outcome,
            "notes": sorted(told.notes),
        }
        file.write(msgspec.json.encode(line) + b"\n")

    return write


def _database(url: str | None) -> dict[str, Any] | None:
    return storage.database(url, "--database") if url else None
