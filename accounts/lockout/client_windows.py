"""The counts of one client: its network's, and for IPv6 its site's at ten times the limit.

A client is counted by ``client_network``: an IPv4 address, or the /64 of an IPv6 address. A rented /48 has 65,536 of
those, so the /48 is counted as well. The network comes first: what its count refuses is not counted for the site.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ironauth.infrastructure.ratelimit import window as sliding_window
from ironauth.infrastructure.ratelimit import window_store
from ironauth.infrastructure.ratelimit.window import Refusal, Slot
from ironauth.infrastructure.ratelimit.window_store import RateLimitHit

#: What a /48 may have, in limits of one /64: a customer who is given it is a company, not ten of them.
SITE_LIMITS: Final = 10


class Windows(NamedTuple):
    """What came of the questions about one client. ``left``: still to be asked of the database."""

    taken: tuple[Slot, ...] = ()
    left: tuple[RateLimitHit, ...] = ()
    refusal: Refusal | None = None
    refused_key: str = ""


async def take_in_redis(asked: Sequence[RateLimitHit]) -> Windows:
    """Take a place in each of these counts in Redis, until one refuses; without Redis they are all left."""
    taken: list[Slot] = []
    for at, question in enumerate(asked):
        found = await sliding_window.take_in_redis(question)
        if isinstance(found, Refusal):
            return Windows(tuple(taken), (), found, question.key)
        if found is None:
            return Windows(tuple(taken), tuple(asked[at:]))
        taken.append(found)
    return Windows(tuple(taken))


def take_in_redis_blocking(asked: Sequence[RateLimitHit]) -> Windows:
    """See take_in_redis(); for threads."""
    taken: list[Slot] = []
    for at, question in enumerate(asked):
        found = sliding_window.take_in_redis_blocking(question)
        if isinstance(found, Refusal):
            return Windows(tuple(taken), (), found, question.key)
        if found is None:
            return Windows(tuple(taken), tuple(asked[at:]))
        taken.append(found)
    return Windows(tuple(taken))


def take_in_database(windows: Windows) -> Windows:
    """Take a place in each count that is left. A unit of work for ``write``: a query each, one more for a refusal."""
    taken = list(windows.taken)
    for question in windows.left:
        found = sliding_window.take_in_database(question)
        if isinstance(found, Refusal):
            return Windows(tuple(taken), (), found, question.key)
        taken.append(found)
    return Windows(tuple(taken), (), windows.refusal, windows.refused_key)


async def give_back_to_redis(windows: Windows) -> None:
    """Give back the places that were taken in Redis."""
    for taken in windows.taken:
        if taken.in_redis:
            await sliding_window.give_back_to_redis(taken)


def give_back_to_redis_blocking(windows: Windows) -> None:
    """See give_back_to_redis(); for threads."""
    for taken in windows.taken:
        if taken.in_redis:
            sliding_window.give_back_to_redis_blocking(taken)


def give_back(windows: Windows) -> None:
    """Give back the places that were taken in the database. A unit of work: a query each."""
    for taken in windows.taken:
        if not taken.in_redis:
            window_store.give_back(taken.key, taken.slot)
