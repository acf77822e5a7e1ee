"""What depends on a row of users: fields that a request sees, the signal that sessions end, tags of cached entries."""

import hashlib
import uuid
from typing import Final

from django.dispatch import Signal

#: In the transaction in which every session of some people ends at once (``user_ids``), before it is written: a new
#: password, a deactivation, signing out everywhere, the end of the account. Sent also for people without sessions.
sessions_end: Final = Signal()

#: In the transaction in which some accounts (``user_ids``) become inactive, by whatever hand, before it is written and
#: before ``sessions_end``. Also sent for accounts that are inactive already, and where the owner asks for the deletion.
deactivated: Final = Signal()

#: In the transaction in which some accounts (``user_ids``) get another address, before it is written.
address_left: Final = Signal()

#: Fields a signed-in request can see or is decided by: changing one makes every cached copy of the user wrong.
VISIBLE: Final = frozenset(
    {
        "email",
        "email_key",
        "name",
        "preferred_username",
        "given_name",
        "family_name",
        "zoneinfo",
        "language",
        "password",
        "is_active",
        "is_staff",
        "is_superuser",
        "email_verified_at",
        "session_epoch",
        "created_at",
    }
)


def sub_tag(user_id: uuid.UUID | str) -> str:
    """Return the tag of what depends on one user."""
    return f"sub:{user_id}"


def role_tag(name: str) -> str:
    """Return the tag of what depends on one role; a digest, because names are longer than tags."""
    return f"role:{hashlib.sha256(name.encode()).hexdigest()[:32]}"
