"""What units of any room ask about clients inside their transaction."""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Max
from django.dispatch import Signal

from accounts.access import scopes
from accounts.invitations.continuing import Application
from tokens.clients.models import OAuthClient
from tokens.protocol import GrantType

#: Sent with ``client`` when it is disabled, enabled again or deleted, in that transaction. What a room keeps for the
#: client ends by its receiver (`sessions.ends.of_clients.end_of_client`, `oauth.expiry.end_of_client`), which returns
#: how many sessions that ended (None: it keeps none).
client_ends: Final = Signal()
#: Sent with ``client``, locked, when staff verify one of a stranger, in that transaction: what it shows stays as it is
#: (`fetched.logos.settled`; see `tokens.registration`).
client_verified: Final = Signal()


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


def longest_access_token_s() -> int:
    """Return the longest life of an access token that a client has of its own, in seconds; 0 without any. 1 query."""
    return OAuthClient.objects.aggregate(longest=Max("access_token_s"))["longest"] or 0


def invited_to(client_id: str) -> Application | None:
    """Return the enabled client with an ``initiate_login_uri``; None for any other text. 1 query.

    The address has our ``iss`` (OpenID Connect Core §4), by which the client knows where to send people. An id has one
    spelling here: `UUID` also reads braces, capitals and any number of hyphens.

    Args:
        client_id: As an invitation has it.
    """
    try:
        parsed = UUID(client_id)
    except ValueError:
        return None
    if str(parsed) != client_id:
        return None
    row = _initiating().filter(pk=parsed).values_list("name", "initiate_login_uri").first()
    if row is None:
        return None
    name, uri = row
    joint = "&" if "?" in uri else "?"
    return Application(client_id, name, f"{uri}{joint}{urlencode({'iss': settings.IRONAUTH_ISSUER})}")


def to_invite_to() -> list[tuple[str, str]]:
    """Return the ids and names of such clients, by name. 1 query."""
    return [(str(pk), name) for pk, name in _initiating().order_by("name", "pk").values_list("pk", "name")]


def _initiating() -> "models.QuerySet[OAuthClient]":
    return OAuthClient.objects.filter(disabled_at=None).exclude(initiate_login_uri="")
