"""What this room registers elsewhere: personal data, and the first proof of an address."""

from typing import Any

from django.db.models import QuerySet

from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.privacy import export
from accounts.transfer.models import ImportedUser
from ironauth.infrastructure.db.compiled import Param


def register() -> None:
    """Register both; called once, when the application is ready."""
    export.register("imported_from", _imported, ImportedUser)
    first_proof.register(ImportedUser, Fate.KEPT, "It says who the person was in another system, and opens nothing.")


def _imported(person: Param) -> QuerySet[Any, Any]:
    """Return where the person came from."""
    return ImportedUser.objects.filter(user_id=person).values("source", "external_id", "run__started_at")
