"""``manage.py rotate_signing_key``: a regular rotation, or the removal of a compromised key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.keys.key_set import Family
from tokens.keys.models import SigningKey
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
            help="the keys to rotate (default: all there are: ed25519 sign access tokens, others ID tokens)",
        )
        parser.add_argument("--drop", metavar="KID", help="a compromised key to refuse from now on")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate or drop; print the kids that sign from now on, that of access tokens first."""
        kids: list[str]
        refused: list[str] = []
        if options["drop"]:
            try:
                kids = [drop(options["drop"])]
            except RotationRefusedError as error:
                raise CommandError(str(error)) from error
        else:
            kids, refused = _rotated([Family(options["alg"])] if options["alg"] else _in_use(), at_once=options["now"])
        with ignore_broken_pipe(self.stdout):
            for kid in kids:
                self.stdout.write(kid)
        if refused:
            raise CommandError(f"{' '.join(refused)} (--now does not wait for clients)")


def _in_use() -> list[Family]:
    """Return the families there are keys of; Ed25519 always, so that its absence is told."""
    found = set(SigningKey.objects.filter(state=SigningKey.State.ACTIVE).values_list("family", flat=True))
    return [family for family in Family if family is Family.ED25519 or family in found]


def _rotated(families: list[Family], *, at_once: bool) -> tuple[list[str], list[str]]:
    """Rotate each that may be; return the kids that sign now, and why the others were left as they are.

    Args:
        families: The families, each in a transaction of its own.
        at_once: Do not wait until every client can know the next key.
    """
    kids, refused = [], []
    for family in families:
        try:
            kids.append(rotate(family, at_once=at_once))
        except RotationRefusedError as error:
            refused.append(str(error) if len(families) == 1 else f"{family.value}: {error}")
    return kids, refused
