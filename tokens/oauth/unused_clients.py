"""Deleting applications of strangers that nobody uses."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from ironauth.infrastructure.core import clock
from tokens.clients.dynamic import queries
from tokens.clients.models import OAuthClient
from tokens.oauth.models import Consent
from tokens.sessions.models import Session

#: Seconds for which an application waits that nobody has ever allowed anything: people who begin finish within a day.
NEVER_ALLOWED_S: Final = 86_400


def purge(*, batch: int) -> int:
    """Delete unverified applications that nobody uses; return how many went. Each leaves an event.

    Unused: without a live session, and allowed nothing within IRONAUTH_REGISTRATION_UNUSED_DAYS; without any consent,
    a day after it was made. One that staff have disabled stays, or it could come back.

    Args:
        batch: How many are looked at at once; each is deleted in a transaction of its own.
    """
    deleted, after = 0, UUID(int=0)
    while True:
        ids = list(_due().filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:batch])
        live = Session.objects.live(clock.now()).filter(client_id__in=map(str, ids))
        used = set(live.values_list("client_id", flat=True)) if ids else set()
        deleted += sum(queries.expire(_due().filter(pk=one)) for one in ids if str(one) not in used)
        if len(ids) < batch:
            return deleted
        after = ids[-1]


def _due() -> QuerySet[OAuthClient]:
    """Return those that were allowed nothing for long; whether they have sessions is not asked here."""
    now = clock.now()
    long_ago = now - timedelta(days=settings.IRONAUTH_REGISTRATION_UNUSED_DAYS)
    a_day_ago = now - timedelta(seconds=NEVER_ALLOWED_S)
    consents = Consent.objects.filter(client=OuterRef("pk"))
    return OAuthClient.objects.filter(
        ~Exists(consents.filter(updated_at__gt=long_ago)),
        Q(created_at__lte=long_ago) | (Q(created_at__lte=a_day_ago) & ~Exists(consents)),
        verified_at=None,
        disabled_at=None,
    ).exclude(origin=OAuthClient.Origin.STAFF)
