"""Who a person is at the server, and which of their sign-ins are open."""

from typing import ClassVar

from django.conf import settings
from django.db import models


class Identity(models.Model):
    """A person of a server: ``sub`` means somebody only together with its issuer."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="ironauth_identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    objects: ClassVar[models.Manager["Identity"]] = models.Manager()

    class Meta:
        verbose_name = "identity"
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="ironauth_client_identity")]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class OpenSession(models.Model):
    """A sign-in that has not ended: the browser's session names this row, and is signed out once it is gone."""

    identity = models.ForeignKey(Identity, on_delete=models.CASCADE)
    sid = models.CharField(max_length=255, blank=True, db_index=True)
    created_at = models.DateTimeField(db_index=True)

    objects: ClassVar[models.Manager["OpenSession"]] = models.Manager()

    class Meta:
        verbose_name = "open session"

    def __str__(self) -> str:
        return f"session {self.pk}"
