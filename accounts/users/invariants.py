"""What must stay true of a user row whatever writes it: used by ``User.save`` and by the queryset's bulk writes."""

from typing import TYPE_CHECKING, Final

from django.dispatch import Signal

from accounts import email_address as emails
from accounts import names
from accounts.outbox import tokens as email_tokens
from ironauth.infrastructure.core import clock

if TYPE_CHECKING:
    from accounts.users.models import User

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
#: Fields whose change may end sessions or unverify the address: the stored row is compared before they are written.
_COMPARED: Final = frozenset({"email", "password", "is_active", "session_epoch"})


def check_and_normalize(user: "User", using: str, fields: frozenset[str]) -> frozenset[str]:
    """Make ``user`` consistent before ``fields`` of it are written; return the fields to write.

    Runs inside the transaction of the write. Locks the stored row when a compared field is among ``fields``.
    """
    if "email" in fields:
        user.email = emails.normalise(user.email)
        user.email_key = emails.fold(user.email)
        fields |= {"email_key"}
    if "name" in fields:
        user.name = names.normalise(user.name)
    if not user._state.adding and fields & _COMPARED:  # noqa: SLF001 - documented by Django
        fields |= _compare(user, using, fields)
    if fields & VISIBLE:
        user.updated_at = clock.now()
        fields |= {"updated_at"}
    return fields


def _compare(user: "User", using: str, fields: frozenset[str]) -> frozenset[str]:
    """Raise the epoch and clear what was said of the old address or password; return the fields touched."""
    rows = type(user)._base_manager.using(using).select_for_update().filter(pk=user.pk)  # noqa: SLF001 - documented by Django
    before = rows.values("email_key", "password", "is_active", "session_epoch", "email_verified_at").first()
    if before is None:
        return frozenset()
    touched: set[str] = set()
    ends_sessions = ("password" in fields and before["password"] != user.password) or (
        "is_active" in fields and before["is_active"] and not user.is_active
    )
    if "password" in fields and before["password"] != user.password:
        user.password_flagged_at = None  # the new password is not the one that was found in a breach
        touched.add("password_flagged_at")
    epoch = user.session_epoch
    if isinstance(epoch, int) and (ends_sessions or "session_epoch" in fields):
        # The larger of both: an instance read before another process ended the sessions must not revive them.
        user.session_epoch = max(before["session_epoch"] + ends_sessions, epoch if "session_epoch" in fields else 0)
        touched.add("session_epoch")
        if user.session_epoch > before["session_epoch"]:
            sessions_end.send(sender=type(user), user_ids=[user.pk])
    moved = "email" in fields and before["email_key"] != user.email_key
    if moved and before["email_verified_at"] is not None and user.email_verified_at == before["email_verified_at"]:
        user.email_verified_at = None  # the new address is not the one that was verified
        touched.add("email_verified_at")
    if ends_sessions or moved:  # what was mailed before must open nothing now
        email_tokens.forget_all_of([user.pk], using)
    return frozenset(touched)
