"""A command that registers rows of one kind from scripts. JSON on standard output, messages on standard error."""

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.registered import changes
from tokens.registered.kind import Kind, Registered


class RegisteredCommand(BaseCommand):
    """Create, list, disable, enable and delete registered rows."""

    kind: ClassVar[Kind[Any, Any]]
    #: What messages call one.
    noun: ClassVar[str]
    #: What is said to those who name none that there is.
    unknown: ClassVar[str]
    #: What names one on the command line.
    named: ClassVar[str] = "identifier"
    #: What help says of each act.
    acts: ClassVar[Mapping[str, str]]
    #: Which option gives a field, for messages.
    options: ClassVar[Mapping[str, str]]

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options of ``create``."""
        raise NotImplementedError

    def values(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the options of ``create`` give."""
        raise NotImplementedError

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the acts."""
        acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
        for act, what in self.acts.items():
            one = acts.add_parser(act, help=what)
            if act == "create":
                self.add_options(one)
            elif act != "list":
                one.add_argument(self.named)

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked.

        Raises:
            CommandError: naming every bad option.
        """
        acts = {"create": self._create, "list": self._list, "delete": self._delete}
        answer = acts.get(options["act"], self._switch)(options)
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(json.dumps(answer))

    def _create(self, options: dict[str, Any]) -> object:
        row = self.kind.model(**self.kind.tidied(self.values(options)))
        if problems := self.kind.problems_of(row):
            raise CommandError("\n".join(f"{self.options[one.field]}: {one.message}" for one in problems))
        changes.create(self.kind, row)
        return self._described(row)

    def _list(self, options: dict[str, Any]) -> object:
        return [self._described(row) for row in self.kind.rows()]

    def _switch(self, options: dict[str, Any]) -> object:
        row, active = self._found(options), options["act"] == "enable"
        if row.active == active:
            self.stderr.write(f"Nothing to do: the {self.noun} is {options['act']}d already.")
        else:
            row.active = active
            changes.change(self.kind, row, fields=["active"])
        return self._described(row)

    def _delete(self, options: dict[str, Any]) -> object:
        row = self._found(options)
        changes.delete(self.kind, row)
        return {"identifier": row.identifier, "deleted": True}

    def _found(self, options: dict[str, Any]) -> Registered:
        row: Registered | None = self.kind.rows().filter(identifier=options[self.named]).first()
        if row is None:
            raise CommandError(self.unknown)
        return row

    def _described(self, row: Registered) -> dict[str, object]:
        return {name: getattr(row, name) for name in ("identifier", *self.kind.changeable)}
