"""What others depend on when a user row changes: the fields a request sees, and the signal that sessions end."""

from typing import Final

from django.dispatch import Signal

#: In the transaction in which every session of some people ends at once (``user_ids``), before it is written: a new
#: password, a deactivation, signing out everywhere, the end of the account. Sent also for people without sessions.
sessions_end: Final = Signal()

#: Fields a signed-in request can see or is decided by: changing one makes every cached copy of the user wrong.
VISIBLE: Final = frozenset(
    {
        "email",
        "email_key",
        "name",
        "password",
        "is_active",
        "is_staff",
        "is_superuser",
        "email_verified_at",
        "session_epoch",
        "created_at",
    }
)
