"""How many live sessions and consents clients have, for a page of the admin's list."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Count

from ironauth.infrastructure.core import clock
from tokens.oauth.models import Consent
from tokens.sessions.models import Session

#: Sessions looked at, the newest first, as on the start page: a list is not to wait for a million.
LOOKED_AT: Final = 20_000


class Counts(NamedTuple):
    """By client. ``complete``: no session was left out."""

    sessions: Mapping[UUID, int]
    consents: Mapping[UUID, int]
    complete: bool


def counts_of(client_ids: Sequence[UUID]) -> Counts:
    """Return the counts of these clients. Three queries, whatever their number."""
    recent = Session.objects.order_by("-pk").values_list("pk", flat=True)
    oldest = list(recent[LOOKED_AT - 1 : LOOKED_AT])
    live = Session.objects.live(clock.now()).filter(user__is_active=True, client_id__in=map(str, client_ids))
    if oldest:
        live = live.filter(pk__gte=oldest[0])
    sessions = live.order_by().values_list("client_id").annotate(Count("pk"))
    consents = Consent.objects.filter(client__in=client_ids).order_by().values_list("client").annotate(Count("pk"))
    return Counts({UUID(client_id): count for client_id, count in sessions}, dict(consents), not oldest)
