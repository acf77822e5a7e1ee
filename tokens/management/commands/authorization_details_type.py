"""``manage.py authorization_details_type``: register types from scripts. JSON on standard output, messages on error.

Types of authorization details (RFC 9396), which clients may then be allowed to ask for.
"""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError

from ironauth.infrastructure.core import strict_json
from tokens.details.administration.kind import DETAIL_TYPES
from tokens.registered.command import RegisteredCommand


class Command(RegisteredCommand):
    """Create, list, disable, enable and delete types of authorization details."""

    help = (
        "Register the types of authorization details that clients may ask for (RFC 9396). Prints JSON: an object, or "
        "for `list` an array; messages go to standard error. Exit status 0, 1 when something is refused, 2 for a wrong "
        "command line."
    )
    kind = DETAIL_TYPES
    noun = "type"
    unknown = "There is no such type: `manage.py authorization_details_type list` shows those there are."
    named = "type"
    acts = {
        "create": "register a type; print it",
        "list": "print every type",
        "disable": "refuse requests for a type; grants give no more of it",
        "enable": "let clients ask for it again",
        "delete": "forget it; grants give no more of it",
    }
    options = {"identifier": "--type", "words": "--words", "members": "--members"}

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options of ``create``."""
        add = parser.add_argument
        add("--type", required=True, help="the type in requests and tokens, like payment_initiation")
        add("--words", required=True, help="what people read who are asked, with required members in braces")
        add("--members", default="{}", metavar="JSON", help="what an object of it may have (default: nothing)")
        add("--unattended", action="store_true", help="clients may have it for themselves (client_credentials)")

    def values(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the type.

        Raises:
            CommandError: Its members are no JSON.
        """
        try:
            members = strict_json.loads(options["members"])
        except strict_json.InvalidJson as error:
            raise CommandError(f"--members: This {error}") from error
        given = {name: options[name] for name in ("words", "unattended")}
        return {"identifier": options["type"], "members": members, **given}
