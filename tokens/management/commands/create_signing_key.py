"""``manage.py create_signing_key``: what a new installation runs once, and may run again."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import IntegrityError

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.keys.key_set import FIRST_FAMILIES, Family
from tokens.keys.units import create_first_keys


class Command(BaseCommand):
    """Make sure there are signing keys; print the active one's kid."""

    help = (
        "Create the active and the next signing key unless they exist, and those that sign ID tokens; "
        "print the active key's kid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --alg."""
        parser.add_argument(
            "--alg",
            choices=[family.value for family in Family],
            help="only keys of this kind (default: ed25519 for access tokens, and RS256 for ID tokens)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Create what is missing; a second process that does the same at this moment wins or loses harmlessly."""
        families = [Family(options["alg"])] if options["alg"] else FIRST_FAMILIES
        kids = [_created(family) for family in families]
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(kids[0])


def _created(family: Family) -> str:
    """Make sure there are keys of a family; return the active one's kid."""
    try:
        return create_first_keys(family)
    except IntegrityError:  # another process made them at this moment
        return create_first_keys(family)
