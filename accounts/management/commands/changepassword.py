"""``manage.py changepassword``: Django's, with a message to the owner and an event in the audit trail."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.db import transaction

from accounts.audit import recording as audit
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users.models import User


class Command(changepassword.Command):
    """Change a person's password."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Do as Django does, then record it and have the person told.

        Not in Django's own transaction: one that waited for somebody to type would keep SQLite's other writers out.
        """
        email = options["username"] = options["username"] or getpass.getuser()
        said: str | None = super().handle(*args, **options)
        with transaction.atomic(using=options["database"]):
            user = User.objects.using(options["database"]).get(email=email)
            outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk)
            audit.record(audit.Event.PASSWORD_CHANGED, user_id=user.pk)
        return said
