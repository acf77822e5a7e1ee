"""``/metrics``: Prometheus' text for holders of the token; imported only with IRONAUTH_METRICS.

One worker answers for all of a server. Every worker writes its figures ten times a second, and the worker that answers
writes its own first. So a figure that was shown never goes back, whichever worker is asked next and whichever has died.
Gauges are up to a second old.
"""

import asyncio
import hmac

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from ironauth.infrastructure.api.problem import problem_response
from ironauth.infrastructure.api.read_only import read_only
from ironauth.infrastructure.telemetry import metrics as figures
from ironauth.infrastructure.telemetry.metrics_export import text_of

SCHEME = "Bearer "


@read_only
async def metrics(request: HttpRequest) -> HttpResponse:
    """Show the figures; 401 without the token."""
    sent = request.headers.get("Authorization", "")
    if not sent.startswith(SCHEME) or not hmac.compare_digest(
        sent.removeprefix(SCHEME).encode(), settings.IRONAUTH_METRICS_TOKEN.encode()
    ):
        return problem_response(
            status=401,
            code="metrics_token_required",
            title="Unauthorized",
            detail="Send IRONAUTH_METRICS_TOKEN as Bearer token.",
            headers={"WWW-Authenticate": 'Bearer realm="metrics"', "Cache-Control": "no-store"},
        )
    recorder = figures.start()
    accepted = request.headers.get("Accept", "")
    text, media_type = await asyncio.to_thread(text_of, recorder, figures.folder, accepted=accepted)
    return HttpResponse(text, content_type=media_type, headers={"Cache-Control": "no-store"})
