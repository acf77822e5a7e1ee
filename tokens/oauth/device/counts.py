"""How often devices ask too soon: counted in memory, for each client and network, so that a refusal is cheap.

A device that never waits costs a read of the database each time until its count is full, then nothing. The count is of
a client and a network together: anybody can name a public client, and nobody may keep its other devices waiting. An
IPv6 /48 also has a count, with ten times the limit, as everywhere.
"""

import threading
from typing import Final, NamedTuple

from django.conf import settings

from accounts.lockout import rate_limits
from accounts.lockout.rate_limits import SITE_LIMITS, Refused, Rule
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import client_network, client_site

#: A device that keeps its interval is never counted; one that asks each second is, for five minutes.
TOO_SOON: Final = Rule("device_poll", "IRONAUTH_THROTTLE_BAD_REFRESHES", 900)
#: Counts remembered in a process, about 2 MiB; beyond it the oldest begin anew.
MOST: Final = 10_000


class _Count(NamedTuple):
    """How many, and until when (unix seconds) they count."""

    tries: int
    until: float


_counts: Final[dict[str, _Count]] = {}
_lock: Final = threading.Lock()


async def refuse_full(client_id: str, address: str) -> None:
    """Raise ``Throttled`` (429) where devices of the client have asked too soon too often; the first is audited.

    Args:
        client_id: The device's client.
        address: The device's IP address.
    """
    now = clock.unix()
    for key, limit in _limits(client_id, address).items():
        found = _counts.get(key)
        if found is not None and found.until > now and found.tries >= limit:
            await rate_limits.refuse(Refused(TOO_SOON.name, "client", key, found.until - now))


def count(client_id: str, address: str) -> None:
    """Note that a device of the client has asked too soon.

    Args:
        client_id: The device's client.
        address: The device's IP address.
    """
    now = clock.unix()
    with _lock:
        for key in _limits(client_id, address):
            found = _counts.pop(key, None)
            if found is None or found.until <= now:
                found = _Count(0, now + TOO_SOON.window_s)
            if len(_counts) >= MOST:
                del _counts[next(iter(_counts))]
            _counts[key] = found._replace(tries=found.tries + 1)


def _limits(client_id: str, address: str) -> dict[str, int]:
    """Return the counts by name, each with its limit; none without throttles, or for an address that is not known."""
    limit: int = getattr(settings, TOO_SOON.setting)
    shares = {client_network(address): limit, client_site(address): SITE_LIMITS * limit}
    if not settings.IRONAUTH_THROTTLE:
        return {}
    return {rate_limits.mac(TOO_SOON.name, client_id, share): most for share, most in shares.items() if share}
