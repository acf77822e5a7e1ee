"""``manage.py api_resource``: register APIs from scripts. JSON on standard output, messages on standard error."""

import json
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts import names
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.resources import changes, rules
from tokens.resources.models import ApiResource

#: Which option gives a field, for messages.
OPTIONS: Final = {
    "identifier": "--identifier", "name": "--name", "scopes": "--scope", "signing_alg": "--signing-alg",
    "access_token_s": "--access-token-s",
}  # fmt: skip
FIELDS: Final = (*OPTIONS, "for_self_registered", "active")
UNKNOWN: Final = "There is no API with this identifier: `manage.py api_resource list` shows those there are."


class Command(BaseCommand):
    """Create, list, disable, enable and delete registered APIs."""

    help = (
        "Register the APIs that access tokens are made for (RFC 8707). Prints JSON: an object, or for `list` an array; "
        "messages go to standard error. Exit status 0, 1 when something is refused, 2 for a wrong command line."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the acts."""
        acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
        _add_create(acts.add_parser("create", help="register an API; print it"))
        acts.add_parser("list", help="print every API")
        for act, what in (
            ("disable", "make no more tokens for an API; introspection calls those there are inactive"),
            ("enable", "make tokens for it again"),
            ("delete", "forget it; grants for it give no more tokens"),
        ):
            acts.add_parser(act, help=what).add_argument("identifier")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked.

        Raises:
            CommandError: naming every bad option.
        """
        acts = {"create": self._create, "list": self._list, "delete": self._delete}
        acts.get(options["act"], self._switch)(options)

    def _create(self, options: dict[str, Any]) -> None:
        resource = ApiResource(
            identifier=options["identifier"],
            name=names.normalise(options["name"]),
            scopes=[scope for text in options["scope"] for scope in text.split()],
            signing_alg=options["signing_alg"],
            access_token_s=options["access_token_s"],
            for_self_registered=options["for_self_registered"],
        )
        if problems := rules.problems_of(resource):
            raise CommandError("\n".join(f"{OPTIONS[one.field]}: {one.message}" for one in problems))
        changes.create(resource)
        self._print(_described(resource))

    def _list(self, options: dict[str, Any]) -> None:
        self._print([_described(resource) for resource in ApiResource.objects.all()])

    def _switch(self, options: dict[str, Any]) -> None:
        resource, active = _found(options["identifier"]), options["act"] == "enable"
        if resource.active == active:
            self.stderr.write(f"Nothing to do: the API is {options['act']}d already.")
        else:
            resource.active = active
            changes.change(resource, fields=["active"])
        self._print(_described(resource))

    def _delete(self, options: dict[str, Any]) -> None:
        resource = _found(options["identifier"])
        changes.delete(resource)
        self._print({"identifier": resource.identifier, "deleted": True})

    def _print(self, answer: object) -> None:
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(json.dumps(answer))


def _add_create(parser: ArgumentParser) -> None:
    """Add the options of ``create``; what is a list may be given several times."""
    add = parser.add_argument
    add("--identifier", required=True, metavar="URI", help="the aud of its tokens, like https://api.example.com/orders")
    add("--name", required=True, help="what people read on the consent page")
    add("--scope", action="append", default=[], metavar="SCOPE", help="a scope of its own; several times")
    add("--signing-alg", default=ApiResource.SigningAlg.ED25519, metavar="ALG", help="ed25519 (default), ES256, RS256")
    add("--access-token-s", type=int, metavar="SECONDS", help="most seconds a token lives (default: as the settings)")
    help_open = "applications that registered themselves may have its scopes"
    add("--for-self-registered", action="store_true", help=help_open)


def _found(identifier: str) -> ApiResource:
    resource = ApiResource.objects.filter(identifier=identifier).first()
    if resource is None:
        raise CommandError(UNKNOWN)
    return resource


def _described(resource: ApiResource) -> dict[str, object]:
    return {name: getattr(resource, name) for name in FIELDS}
