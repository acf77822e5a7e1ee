"""How many sessions are alive, for the admin's start page."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.core.cache import cache
from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import reverse

from accounts.admin.start import HEIGHT, PARTS, Bar, Figure, Note, Plot
from accounts.audit.counts import FRESH_S
from ironauth.infrastructure.core import clock
from tokens.rights import VIEW_SESSIONS
from tokens.sessions.models import Session

#: Sessions looked at, the newest first: no index knows which are alive, and the page is not to wait for a million.
LOOKED_AT: Final = 20_000
_KEY: Final = "tokens.admin_start"
_WIDTH: Final = 100  # of the plot, in units of its own


def live_sessions() -> dict[str, Any]:
    """Return how many sessions are alive, ``total``, and of them used within ``hour`` and ``day``.

    ``complete``: no session was left out. As of ``FRESH_S`` seconds ago at most. Two queries, or none.
    """
    counts: dict[str, Any] | None = cache.get(_KEY)
    if counts is None:
        now = clock.now()
        oldest = list(Session.objects.order_by("-pk").values_list("pk", flat=True)[LOOKED_AT - 1 : LOOKED_AT])
        live = Session.objects.live(now).filter(user__is_active=True).order_by()
        counts = (live.filter(pk__gte=oldest[0]) if oldest else live).aggregate(
            total=Count("pk"),
            hour=Count("pk", filter=Q(last_used_at__gte=now - timedelta(hours=1))),
            day=Count("pk", filter=Q(last_used_at__gte=now - timedelta(days=1))),
        )
        counts["complete"] = not oldest
        cache.set(_KEY, counts, FRESH_S)
    return counts


def _sessions(request: HttpRequest) -> Sequence[Figure]:
    """Return the figure for those who may see sessions."""
    if not request.user.has_perm(VIEW_SESSIONS):
        return ()
    counts = live_sessions()
    total, hour, day = counts["total"], counts["hour"], counts["day"]
    notes = [Note(f"{hour:,} used in the past hour, {day:,} in 24 h")]
    if not counts["complete"]:
        notes.append(Note(f"Of the newest {LOOKED_AT:,}; there are older ones"))
    value = f"{total:,}" if counts["complete"] else f"{total:,}+"
    return (
        Figure(
            "Active sessions",
            value,
            f"{reverse('admin:tokens_session_changelist')}?state=live",
            _by_use(counts),
            tuple(notes),
        ),
    )


def _by_use(counts: dict[str, Any]) -> Plot:
    """Return one bar, divided by when the sessions were last used."""
    total, hour, day = counts["total"], counts["hour"], counts["day"]
    parts = (("full", hour, "in the past hour"), ("half", day - hour, "in 24 hours"), ("none", total - day, "before"))
    bars, x = [], 0.0
    for kind, number, when in parts:
        width = round(_WIDTH * number / total, 2) if total else 0.0
        bars.append(Bar(x, width, HEIGHT / 4, f"Last used {when}: {number:,}", kind))
        x += width
    words = "; ".join(bar.title for bar in bars)
    return Plot(_WIDTH, tuple(bars) if total else (Bar(0, _WIDTH, 0.5, "None", "none"),), words)


PARTS.append(_sessions)
