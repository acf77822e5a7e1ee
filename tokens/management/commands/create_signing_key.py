"""``manage.py create_signing_key``: what a new installation runs once, and may run again."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import IntegrityError

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.keys.key_set import Family
from tokens.keys.units import create_first_keys


class Command(BaseCommand):
    """Make sure there is a signing key; print its kid."""

    help = "Create the active and the next signing key unless they exist; print the active key's kid."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --alg."""
        parser.add_argument(
            "--alg",
            choices=[family.value for family in Family],
            default=Family.ED25519.value,
            help="ES256 or RS256: for ID tokens of OAuth clients that cannot verify Ed25519 (default: ed25519)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Create what is missing; a second process that does the same at this moment wins or loses harmlessly."""
        family = Family(options["alg"])
        try:
            kid = create_first_keys(family)
        except IntegrityError:
            kid = create_first_keys(family)
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(kid)
