"""``manage.py authorization_details_type``: register types from scripts. JSON on standard output, messages on error.

Types of authorization details (RFC 9396), which clients may then be allowed to ask for.
"""

import json
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.details import changes, rules
from tokens.details.models import DetailType

#: Which option gives a field, for messages.
OPTIONS: Final = {"identifier": "--type", "words": "--words", "members": "--members"}
FIELDS: Final = (*OPTIONS, "unattended", "active")
UNKNOWN: Final = "There is no such type: `manage.py authorization_details_type list` shows those there are."


class Command(BaseCommand):
    """Create, list, disable, enable and delete types of authorization details."""

    help = (
        "Register the types of authorization details that clients may ask for (RFC 9396). Prints JSON: an object, or "
        "for `list` an array; messages go to standard error. Exit status 0, 1 when something is refused, 2 for a wrong "
        "command line."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the acts."""
        acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
        _add_create(acts.add_parser("create", help="register a type; print it"))
        acts.add_parser("list", help="print every type")
        for act, what in (
            ("disable", "refuse requests for a type; grants give no more of it"),
            ("enable", "let clients ask for it again"),
            ("delete", "forget it; grants give no more of it"),
        ):
            acts.add_parser(act, help=what).add_argument("type")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked.

        Raises:
            CommandError: naming every bad option.
        """
        acts = {"create": self._create, "list": self._list, "delete": self._delete}
        acts.get(options["act"], self._switch)(options)

    def _create(self, options: dict[str, Any]) -> None:
        try:
            members = strict_json.loads(options["members"])
        except strict_json.InvalidJson as error:
            raise CommandError(f"--members: This {error}") from error
        row = DetailType(
            identifier=options["type"],
            words=options["words"],
            members=members,
            unattended=options["unattended"],
        )
        if problems := rules.problems_of(row):
            raise CommandError("\n".join(f"{OPTIONS[one.field]}: {one.message}" for one in problems))
        changes.create(row)
        self._print(_described(row))

    def _list(self, options: dict[str, Any]) -> None:
        self._print([_described(row) for row in DetailType.objects.all()])

    def _switch(self, options: dict[str, Any]) -> None:
        row, active = _found(options["type"]), options["act"] == "enable"
        if row.active == active:
            self.stderr.write(f"Nothing to do: the type is {options['act']}d already.")
        else:
            row.active = active
            changes.change(row, fields=["active"])
        self._print(_described(row))

    def _delete(self, options: dict[str, Any]) -> None:
        row = _found(options["type"])
        changes.delete(row)
        self._print({"identifier": row.identifier, "deleted": True})

    def _print(self, answer: object) -> None:
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(json.dumps(answer))


def _add_create(parser: ArgumentParser) -> None:
    """Add the options of ``create``."""
    add = parser.add_argument
    add("--type", required=True, help="the type in requests and tokens, like payment_initiation")
    add("--words", required=True, help="what people read who are asked, with required members in braces")
    add("--members", default="{}", metavar="JSON", help="what an object of it may have (default: nothing)")
    add("--unattended", action="store_true", help="clients may have it for themselves (client_credentials)")


def _found(identifier: str) -> DetailType:
    row = DetailType.objects.filter(identifier=identifier).first()
    if row is None:
        raise CommandError(UNKNOWN)
    return row


def _described(row: DetailType) -> dict[str, object]:
    return {name: getattr(row, name) for name in FIELDS}
