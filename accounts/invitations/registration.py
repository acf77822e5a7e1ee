"""What this room registers elsewhere: personal data, and the first proof of an address."""

from typing import Any

from django.db.models import QuerySet

from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.invitations.models import Invitation
from accounts.privacy import export
from ironauth.infrastructure.db.compiled import Param


def register() -> None:
    """Register both; called once, when the application is ready."""
    export.register("invitation", _accepted, Invitation)
    export.register("invitations_made", _made, Invitation)
    first_proof.register(
        Invitation,
        Fate.KEPT,
        "It was used, and opens nothing; without a proved address only staff invite others, by rights that staff gave.",
    )


def _accepted(person: Param) -> QuerySet[Any, Any]:
    """Return the invitation that the account was made of."""
    rows = Invitation.objects.filter(user_id=person).order_by("-pk")
    return rows.values(
        "email", "name", "language", "roles", "client", "organization_id", "organization_role", "created_at",
        "accepted_at",
    )  # fmt: skip


def _made(person: Param) -> QuerySet[Any, Any]:
    """Return the invitations that the person has made; to which addresses is other people's data."""
    rows = Invitation.objects.filter(invited_by_id=person).order_by("-pk")
    return rows.values(
        "id", "roles", "organization_id", "organization_role", "created_at", "expires_at", "accepted_at", "withdrawn_at"
    )
