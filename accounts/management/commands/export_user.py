"""``manage.py export_user EMAIL``: everything held about a person, for the person who answers their request."""

import uuid
from contextlib import suppress
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.privacy import export
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User
from ironauth.infrastructure.core.stdio import ignore_broken_pipe


class Command(BaseCommand):
    """Print a person's data as JSON; the trail says that somebody had them printed."""

    help = "Print everything held about the account with this e-mail address, or id, as JSON, however much it is."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the address or the id."""
        parser.add_argument("email", help="e-mail address, also of an account being deleted, or the user's id")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print; raises ``CommandError`` when nobody has the address, or when several accounts being deleted had it."""
        user_id = _holder(options["email"])
        with transaction.atomic():
            held = export.collect(user_id, most=None)
            audit.record(audit.Event.DATA_EXPORTED, user_id=user_id)
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(msgspec.json.format(msgspec.json.encode(held)).decode())


def _holder(asked: str) -> uuid.UUID:
    """Return the person that ``asked`` names: by the address, else by the one before the account's deletion."""
    found = list(User.objects.filter(email_key=emails.fold(asked)).values_list("pk", flat=True))
    found += [] if found else list(PendingDeletion.objects.filter(email__iexact=asked).values_list("pk", flat=True))
    with suppress(ValueError):
        found += [] if found else list(User.objects.filter(pk=uuid.UUID(asked)).values_list("pk", flat=True))
    if not found:
        raise CommandError("No account has this e-mail address or id, and none being deleted had it.")
    if len(found) > 1:
        ids = ", ".join(map(str, found))
        raise CommandError(f"Several accounts being deleted had this address: ask for one of {ids}.")
    return found[0]
