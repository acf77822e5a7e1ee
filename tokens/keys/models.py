"""Stored signing keys: the private part of each is encrypted."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q

from ironauth.infrastructure.core import clock
from tokens.keys.key_set import Family

#: Families of signing keys, as staff see them; what an installation always has comes first.
FAMILIES = [(family.value, family.value.replace("ed", "Ed")) for family in Family]


class SigningKeyQuerySet(models.QuerySet["SigningKey"]):
    """Signing keys, many at a time."""

    def published(self, now: datetime) -> SigningKeyQuerySet:
        """Return the keys that tokens may name at ``now``: next, active, and retiring ones until their end."""
        return self.exclude(state=SigningKey.State.DROPPED).filter(Q(not_after=None) | Q(not_after__gt=now))

    def finished(self, now: datetime) -> SigningKeyQuerySet:
        """Return the retiring keys whose last token has expired by ``now``."""
        return self.filter(state=SigningKey.State.RETIRING, not_after__lte=now)


class SigningKey(models.Model):
    """A key pair and where it is in its life: next → active → retiring → deleted, or dropped.

    Each ``family`` has a life of its own. Only Ed25519 signs access tokens; see ``tokens.keys.key_set``.
    """

    class State(models.TextChoices):
        """``next``: published, not used yet. ``retiring``: signs no more, its tokens are still accepted."""

        NEXT = "next"
        ACTIVE = "active"
        RETIRING = "retiring"
        DROPPED = "dropped"

    kid = models.CharField(primary_key=True, max_length=43)  # RFC 7638 thumbprint: base64url of a SHA-256
    alg = models.CharField(max_length=16)
    # With a default of the database's own: the release before writes rows without it.
    family = models.CharField(
        max_length=8, choices=FAMILIES, default=Family.ED25519.value, db_default=Family.ED25519.value
    )
    public_jwk = models.JSONField()
    private_encrypted = models.BinaryField()
    master_key_id = models.CharField(max_length=16)
    state = models.CharField(max_length=8, choices=State)
    created_at = models.DateTimeField(default=clock.now)
    activated_at = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    not_after = models.DateTimeField(null=True, blank=True)

    objects = SigningKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            # What makes two rotations (or two first starts) at once harmless: one of them fails here.
            models.UniqueConstraint(fields=["family"], condition=Q(state="active"), name="tokens_one_active_key"),
            models.UniqueConstraint(fields=["family"], condition=Q(state="next"), name="tokens_one_next_key"),
        ]

    def __str__(self) -> str:
        return f"{self.kid} ({self.state})"
