"""Our copies of clients' logos."""

from __future__ import annotations

from typing import Final

from django.db import models

from ironauth.infrastructure.core import clock
from tokens.clients.models import URI_CHARACTERS, OAuthClient

MEDIA_CHARACTERS: Final = 16  # image/png, image/jpeg, image/webp


class ClientLogo(models.Model):
    """The picture that a client's ``logo_uri`` had when somebody was first shown it; it stays until that changes.

    Attributes:
        uri: Where it came from.
        media: Its type, by what is in it; "" for no picture, where staff verified the client without one.
    """

    client = models.OneToOneField(OAuthClient, primary_key=True, on_delete=models.DB_CASCADE, related_name="logo")
    uri = models.CharField(max_length=URI_CHARACTERS)
    media = models.CharField(max_length=MEDIA_CHARACTERS)
    content = models.BinaryField()
    fetched_at = models.DateTimeField(default=clock.now)

    class Meta:
        """Nobody has a use for these rows but the pages."""

        default_permissions = ()

    def __str__(self) -> str:
        return self.uri
