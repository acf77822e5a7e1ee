"""Which session here began with which session at another provider, so that the provider can end it."""

from typing import ClassVar

from django.db import models

from accounts.federation.models import SUBJECT_CHARACTERS, UpstreamProvider
from tokens.sessions.models import Session


class UpstreamSession(models.Model):
    """The session at a provider that a session here began with; only of providers that tell who signs out there."""

    session = models.OneToOneField(Session, on_delete=models.DB_CASCADE, primary_key=True, related_name="upstream")
    provider = models.ForeignKey(UpstreamProvider, on_delete=models.DB_CASCADE, related_name="+", db_index=False)
    subject = models.CharField(max_length=SUBJECT_CHARACTERS)
    sid = models.CharField(max_length=SUBJECT_CHARACTERS, blank=True)

    class Meta:
        """Nobody has a use for these rows but a provider's logout."""

        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=["provider", "subject"], name="tokens_upstream_subject"),
            models.Index(fields=["provider", "sid"], name="tokens_upstream_sid"),
        ]

    def __str__(self) -> str:
        return str(self.pk)
