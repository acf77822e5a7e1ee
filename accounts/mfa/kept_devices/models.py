"""Kept devices at rest: a hash of what the browser's cookie says."""

from typing import Final

from django.conf import settings
from django.db import models

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.http.client_context import USER_AGENT_CHARACTERS

DIGEST_CHARACTERS: Final = 64  # of SHA-256, hexadecimal


class KeptDevice(models.Model):
    """A browser on which somebody has proved their second factor, and has asked to keep it.

    ``digest``: the SHA-256 of its secret, which has 256 random bits. ``epoch``: the account's at that time; under
    another one the row is worth nothing. ``created_at``: when the second factor was proved. The database deletes a
    person's with the person.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="kept_devices")
    digest = models.CharField(max_length=DIGEST_CHARACTERS, unique=True)
    epoch = models.PositiveBigIntegerField()
    user_agent = models.CharField(max_length=USER_AGENT_CHARACTERS, blank=True, default="")
    created_at = models.DateTimeField(default=clock.now)
    last_used_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        """Staff see them, and end them."""

        default_permissions = ("view", "delete")
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"kept device {self.pk}"
