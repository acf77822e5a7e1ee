"""Whether the owner of an address has to prove it before the account opens."""

from datetime import datetime

from django.conf import settings


def is_required() -> bool:
    """Tell whether addresses have to be proved here before anybody signs in."""
    return bool(settings.IRONAUTH_EMAIL_VERIFICATION == "required")


def is_awaited(email_verified_at: datetime | None) -> bool:
    """Tell whether no password is right yet for the account with this address.

    Anybody may sign up with an address of somebody else. An answer of its own to the password of such an account would
    tell that the sign-up made it, hence that the address had no account before.
    """
    return email_verified_at is None and is_required()
