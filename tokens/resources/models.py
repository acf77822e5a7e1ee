"""Registered APIs."""

from __future__ import annotations

from typing import Any

from django.db import models, transaction
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.registered.kind import Registered
from tokens.resources.identifiers import MAX_CHARACTERS

NAME_CHARACTERS = 80


def resource_tag(identifier: str) -> str:
    """Return the invalidation tag of what was cached of tokens for one API."""
    return f"resource:{identifier}"


#: The invalidation tag of what was cached of clients that may have scopes of APIs which are open to them.
SELF_REGISTERED_TAG = "resources:self-registered"


class ApiResource(Registered):
    """An API that access tokens can be made for: a protected resource (RFC 8707, RFC 9728).

    Attributes:
        identifier: Its ``aud``; it never changes, since tokens and grants name it.
        name: What the consent page calls it.
        scopes: The scopes of its own, a JSON array of strings; tokens for it have no other API's.
        access_token_s: Seconds, at most; empty for what the client or the settings say.
        for_self_registered: Whether clients that staff have not made may have its scopes, at this API alone.
        active: Without it no token is made for the API, and introspection calls those there are inactive.
    """

    class SigningAlg(models.TextChoices):
        """What signs its access tokens; Ed25519 goes by the name that IRONAUTH_JWT_ALG says."""

        ED25519 = "ed25519", "Ed25519"
        ES256 = "ES256", "ES256"
        RS256 = "RS256", "RS256"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    identifier = models.CharField(
        max_length=MAX_CHARACTERS,
        unique=True,
        help_text="An absolute URI, as applications send it in resource= and the API finds it in aud. It cannot be "
        "changed later.",
    )
    name = models.CharField(max_length=NAME_CHARACTERS, help_text="What people read when they are asked for consent.")
    scopes = models.JSONField(default=list, blank=True)
    signing_alg = models.CharField(
        "signed with", max_length=8, choices=SigningAlg, default=SigningAlg.ED25519, help_text="What the API verifies."
    )
    access_token_s = models.PositiveIntegerField("seconds an access token lives", null=True, blank=True)
    for_self_registered = models.BooleanField(
        "for applications that registered themselves",
        default=False,
        db_default=False,
        help_text="They may ask people for the scopes of this API, in addition to IRONAUTH_REGISTRATION_SCOPES.",
    )
    active = models.BooleanField(default=True, help_text="Without it nobody gets tokens for the API.")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["name", "id"]
        verbose_name = "API"

    def __str__(self) -> str:
        return self.name

    def save(self, **kwargs: Any) -> None:
        """Write the row; a change to an existing one is published in the same transaction."""
        with transaction.atomic():
            invalidate(SELF_REGISTERED_TAG)
            if not self._state.adding:
                invalidate(resource_tag(self.identifier))
            super().save(**kwargs)


@receiver(pre_delete, sender=ApiResource)
def _publish_deletion(instance: ApiResource, **_: Any) -> None:
    """Publish the end of an API that is about to be deleted."""
    invalidate(SELF_REGISTERED_TAG)
    invalidate(resource_tag(instance.identifier))
