"""The row behind an account that its owner has deleted and may still take back."""

from django.conf import settings
from django.db import models

from accounts.outbox.models import MAX_ADDRESS
from ironauth.infrastructure.core import clock


class PendingDeletion(models.Model):
    """What an account was before its owner deleted it, until it is restored or, from ``due_at`` on, purged.

    Meanwhile the account is inactive and its address is free: the user's row has a stand-in for it (``units``).
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.DB_CASCADE, related_name="pending_deletion"
    )
    email = models.CharField(max_length=MAX_ADDRESS)
    email_verified_at = models.DateTimeField(null=True)
    requested_at = models.DateTimeField(default=clock.now)
    due_at = models.DateTimeField(db_index=True)

    class Meta:
        """Anybody who may change users may restore them: the row has no rights of its own."""

        default_permissions = ()

    def __str__(self) -> str:
        return f"Deleted {self.requested_at:%Y-%m-%d}"
