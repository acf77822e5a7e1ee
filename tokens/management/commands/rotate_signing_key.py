"""``manage.py rotate_signing_key``: a regular rotation, or the removal of a compromised key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.keys.key_set import Family
from tokens.keys.units import RotationRefusedError, drop, rotate


class Command(BaseCommand):
    """Rotate the signing key; running servers follow by themselves."""

    help = (
        "Activate the next signing key and publish a new next one. Tokens signed so far stay valid. With --drop, stop "
        "accepting a compromised key at once: everyone whose token it signed signs in or refreshes again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --now, --alg and --drop."""
        parser.add_argument(
            "--now", action="store_true", help="do not wait until every client has had time to fetch the next key"
        )
        parser.add_argument(
            "--alg",
            choices=[family.value for family in Family],
            default=Family.ED25519.value,
            help="the keys to rotate (default: ed25519, which sign access tokens)",
        )
        parser.add_argument("--drop", metavar="KID", help="a compromised key to refuse from now on")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate or drop; print the kid that signs from now on."""
        try:
            kid = drop(options["drop"]) if options["drop"] else rotate(Family(options["alg"]), at_once=options["now"])
        except RotationRefusedError as error:
            hint = "" if options["drop"] else " (--now does not wait for clients)"
            raise CommandError(f"{error}{hint}") from error
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(kid)
