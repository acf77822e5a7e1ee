"""What this room registers elsewhere: personal data, the first proof of an address, a way in, changed providers."""

from typing import Any

from django.db.models import QuerySet
from django.db.models.signals import post_delete, post_save

from accounts.access import ways_in
from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.federation import queries
from accounts.federation.models import PROVIDERS_TAG, Identity, KeptTokens, UpstreamProvider, UpstreamSignIn
from accounts.privacy import export
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.db.compiled import Param


def register() -> None:
    """Register all of it; called once, when the application is ready."""
    export.register("identities", _identities, Identity)
    export.register("kept_tokens", _kept_tokens, KeptTokens)
    export.register("identities_on_their_way", _waiting, UpstreamSignIn)
    first_proof.register(Identity, Fate.REMOVED, "A stranger linked it: it would let them in again.")
    first_proof.register(KeptTokens, Fate.ENDED, "They are deleted with the identity that a stranger linked.")
    first_proof.register(UpstreamSignIn, Fate.REMOVED, "A stranger began to link an identity.")
    ways_in.register(queries.WAY_IN, queries.usable)
    for signal in (post_save, post_delete):
        signal.connect(_provider_changed, sender=UpstreamProvider)


def _identities(person: Param) -> QuerySet[Any, Any]:
    """Return who the person is at other providers."""
    return Identity.objects.filter(user_id=person).order_by("pk").values(
        "id", "provider__slug", "issuer", "subject", "email", "created_at", "last_used_at"
    )  # fmt: skip


def _kept_tokens(person: Param) -> QuerySet[Any, Any]:
    """Return which access to the person's accounts at providers is kept; never the tokens."""
    return KeptTokens.objects.filter(identity__user_id=person).order_by("pk").values(
        "identity_id", "provider__slug", "scope", "kept_at", "expires_at", "can_refresh"
    )  # fmt: skip


def _waiting(person: Param) -> QuerySet[Any, Any]:
    """Return what the person has begun to connect; the rows go an hour after their end."""
    return UpstreamSignIn.objects.filter(user_id=person).order_by("pk").values("id", "provider__slug", "expires_at")


def _provider_changed(**_: object) -> None:
    """Have every worker read the providers again."""
    invalidate(PROVIDERS_TAG)
