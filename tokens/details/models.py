"""Registered types of authorization details."""

from __future__ import annotations

from typing import Any, Final

from django.db import models, transaction
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.details.lists import MAX_TYPE
from tokens.details.words import MAX_CHARACTERS
from tokens.registered.kind import Registered

#: The invalidation tag of what was cached of the registered types.
TYPES_TAG: Final = "authorization-details"


class DetailType(Registered):
    """A type of authorization details that clients may ask for (RFC 9396 §2.1); each client names those it may.

    Attributes:
        identifier: The ``type`` in requests and tokens; it never changes, since grants name it.
        words: What people read who are asked, with required members in braces.
        members: What an object of it has, a declaration (``details.members``).
        unattended: Whether clients may have it for themselves, by client credentials.
        active: Without it requests for it are refused, and grants give no more of it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    identifier = models.CharField(
        "type",
        max_length=MAX_TYPE,
        unique=True,
        help_text="The type in requests and tokens, such as payment_initiation. It cannot be changed later.",
    )
    words = models.CharField(
        max_length=MAX_CHARACTERS,
        help_text="What people read when they are asked: Pay {amount} to {creditor}. Required members stand in braces.",
    )
    members = models.JSONField(default=dict, blank=True)
    unattended = models.BooleanField(
        "for applications themselves",
        default=False,
        help_text="By client credentials, where nobody is asked.",
    )
    active = models.BooleanField(default=True, help_text="Without it nobody gets it any more.")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["identifier"]
        verbose_name = "type of authorization details"
        verbose_name_plural = "types of authorization details"

    def __str__(self) -> str:
        return self.identifier

    def save(self, **kwargs: Any) -> None:
        """Write the row, and publish the change in the same transaction."""
        with transaction.atomic():
            invalidate(TYPES_TAG)
            super().save(**kwargs)


@receiver(pre_delete, sender=DetailType)
def _publish_deletion(**_: Any) -> None:
    """Publish the end of a type that is about to be deleted."""
    invalidate(TYPES_TAG)
