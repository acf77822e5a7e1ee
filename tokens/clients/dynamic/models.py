"""What is kept of clients that registered themselves, and the tokens of staff that let them.

Nothing here opens anything: of tokens only SHA-256 digests are stored, each of 256 random bits.
"""

from __future__ import annotations

from typing import Final

from django.db import models

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.clients.models import DIGEST_CHARACTERS, OAuthClient

LABEL_CHARACTERS: Final = 80


class RegistrationToken(models.Model):
    """An initial access token (RFC 7591 §3): with it somebody may register some clients until it ends.

    Attributes:
        label: Who got it from staff.
        left: How many clients may still be registered with it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    label = models.CharField(max_length=LABEL_CHARACTERS)
    digest = models.CharField(max_length=DIGEST_CHARACTERS, unique=True)
    left = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        """Rights over clients are rights over what lets them register."""

        ordering = ["-created_at", "-id"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.label


class Registration(models.Model):
    """A client that registered itself, and the token by which it reads, changes and deletes itself (RFC 7592).

    Attributes:
        token: That of staff which let it; empty where anybody may register.
    """

    client = models.OneToOneField(
        OAuthClient, primary_key=True, on_delete=models.DB_CASCADE, related_name="registration"
    )
    digest = models.CharField(max_length=DIGEST_CHARACTERS, unique=True)
    token = models.ForeignKey(RegistrationToken, on_delete=models.DB_SET_NULL, null=True, related_name="+")

    class Meta:
        """Nobody has a use for these rows but the endpoint."""

        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)
