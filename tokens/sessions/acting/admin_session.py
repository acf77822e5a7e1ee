"""What ends with a session of the admin: that its member of staff is signed in as somebody."""

from django.contrib.auth.signals import user_logged_out
from django.db import transaction

from accounts.users.models import User
from tokens.sessions.acting import units


def connect() -> None:
    """Connect the receiver; connecting twice is harmless."""
    user_logged_out.connect(_signed_out, dispatch_uid="tokens.sign_in_as")


def _signed_out(user: User | None, **_: object) -> None:
    """End it on the connection of the admin's request, which may be in a transaction."""
    if user is not None:
        with transaction.atomic():
            units.end_all_of(user.pk)
