"""``manage.py forgive_failures EMAIL``: the way out for somebody who is kept out by strangers."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.lockout import throttling
from accounts.users import queries as user_queries
from ironauth.infrastructure.core.stdio import ignore_broken_pipe


class Command(BaseCommand):
    """Reset an account's counts of wrong passwords and codes, so that its owner may try from anywhere at once."""

    help = (
        "Reset the count of failed sign-ins of one e-mail address, and of its second factor. It says the same "
        "whether or not anybody has the address; the counts of client addresses stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the address."""
        parser.add_argument("email")

    def handle(self, *args: Any, **options: Any) -> None:
        """Reset the count."""
        email = options["email"]
        with transaction.atomic():
            found = user_queries.credentials_of_email(emails.lookup_key(email))
            user_id = found.id if found else None
            throttling.forgive_account(email=email, user_id=user_id)
            if user_id:
                throttling.forgive_second_factor(user_id)
            audit.record(audit.Event.FAILURES_FORGIVEN, user_id=user_id)
        with ignore_broken_pipe(self.stdout):
            self.stdout.write("The next sign-in is let in at once.")
