"""What units of any room ask about clients inside their transaction."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from accounts.access import scopes
from tokens.clients.models import OAuthClient
from tokens.protocol import GrantType


def rights_of_machine(client_id: UUID) -> frozenset[str] | None:
    """Return the rights of a client that administers by itself, as ``app_label.codename``; None for any other. 1 query.

    Args:
        client_id: The id of a client, or of nothing.
    """
    enabled = OAuthClient.objects.filter(pk=client_id, disabled_at=None, administers=True)
    found = enabled.values_list("scopes", "grants").first()
    if found is None or GrantType.CLIENT_CREDENTIALS not in found[1]:
        return None
    return scopes.covered_by(found[0])


def names_of(client_ids: Iterable[UUID]) -> Mapping[UUID, str]:
    """Return the names of those ids that are clients'. 1 query.

    Args:
        client_ids: Ids of clients, or of anything.
    """
    return dict(OAuthClient.objects.filter(pk__in=list(client_ids)).values_list("pk", "name"))
