"""How many bytes of request bodies a process holds at once: one budget, of which each client network has a share.

A body that is longer than ``FREE_BYTES`` counts until its request is answered. What is declared and not sent costs
nothing, so it does not count. A shorter one never counts: large bodies of others must not keep a sign-in out because
its body arrives in two parts.
"""

import ipaddress
from collections import Counter
from typing import Final

from ironauth.infrastructure.core.asgi_types import Scope
from ironauth.infrastructure.http.client_address import client_address, client_network
from ironauth.infrastructure.http.refusal import RETRY_AFTER_S, Refusal

#: Bytes of all bodies: 512 of 64 KiB. A sign-in has 100, and lasts 50 ms where a processor is free.
BUDGET_BYTES: Final = 32 * 1024 * 1024
#: Bytes of one network's bodies (IPv6: a /64): 64 of 64 KiB, four of an administrator's largest.
NETWORK_BYTES: Final = BUDGET_BYTES // 8
#: Bytes of all bodies from one IPv6 /48, which is rented as easily as one address.
SITE_BYTES: Final = BUDGET_BYTES // 2
#: A body that is no longer is not counted: as many as may run need 40 MiB.
FREE_BYTES: Final = 4 * 1024
_SITE_PREFIX: Final = 48


class BodyBudget:
    """Counts bytes; not safe between threads, as everything on the event loop."""

    def __init__(
        self, *, total: int = BUDGET_BYTES, by_network: int = NETWORK_BYTES, by_site: int = SITE_BYTES
    ) -> None:
        """Start empty; all three in bytes."""
        self.total = total
        self.by_network = by_network
        self.by_site = by_site
        self.held = 0
        self._by_holder: Counter[str] = Counter()

    def begin(self, scope: Scope) -> "HeldBody":
        """Return the count of one request's body, empty yet."""
        network = client_network(client_address(scope))
        shares = {network: self.by_network} if network else {}  # nobody can be told apart without an address
        if ":" in network:
            site = ipaddress.ip_network(network).supernet(new_prefix=_SITE_PREFIX)
            shares[str(site)] = self.by_site
        return HeldBody(self, shares)

    def has_room(self, shares: dict[str, int], size: int) -> bool:
        """Return whether ``size`` bytes more fit into the budget and every share."""
        if self.held + size > self.total:
            return False
        return all(self._by_holder[holder] + size <= share for holder, share in shares.items())

    def add(self, shares: dict[str, int], size: int) -> None:
        """Count ``size`` bytes more, or less."""
        self.held += size
        for holder in shares:
            self._by_holder[holder] += size
            if not self._by_holder[holder]:
                del self._by_holder[holder]


class HeldBody:
    """The bytes of one body that are held."""

    __slots__ = ("_budget", "_shares", "_size")

    def __init__(self, budget: BodyBudget, shares: dict[str, int]) -> None:
        self._budget = budget
        self._shares = shares
        self._size = 0

    def grow_to(self, size: int) -> None:
        """Count the body as ``size`` bytes.

        Raises:
            Refusal: 503, when they fit into the budget or one of the shares no more. The body stays as it is counted.
        """
        more = size - self._size
        if not self._budget.has_room(self._shares, more):
            raise Refusal(
                503,
                "overloaded",
                "Too many large bodies are being received; try again shortly.",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        self._budget.add(self._shares, more)
        self._size = size

    def release(self) -> None:
        """Count none of it any more; a second time does nothing."""
        if self._size:
            self._budget.add(self._shares, -self._size)
            self._size = 0
