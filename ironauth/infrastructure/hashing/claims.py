"""Who asks for a hash, so that the hash pool can be fair: a network, and an owner.

The layer that knows requests registers where both come from, so that no caller can forget them. A caller whose identity
is proved is the same owner in every network. An owner that is only named is a separate owner in each network: a
stranger who names it must not take its places. Commands, and work the server does by itself, have no claim.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ironauth.infrastructure.threads.job_queues import NOBODY, Claim

#: Returns the network of the request being answered and its proved owner; "" for what is unknown.
type Source = Callable[[], Claim]

_named: ContextVar[str] = ContextVar("ironauth_hash_owner", default="")
_source: Source = lambda: NOBODY  # noqa: E731 - replaced by `register_source`


def register_source(source: Source) -> None:
    """Have `current` ask ``source`` for the claim of the request being answered."""
    global _source  # noqa: PLW0603 - one source for each process
    _source = source


@contextmanager
def named(owner: str) -> Iterator[None]:
    """Let what is hashed in this block be for ``owner``, whose identity is not proved yet."""
    token = _named.set(owner)
    try:
        yield
    finally:
        _named.reset(token)


def current() -> Claim:
    """Return the claim of what is hashed here, also on a pool's thread."""
    claim = _source()
    owner = _named.get()
    if claim.owner or not owner:
        return claim
    return Claim(claim.network, f"{claim.network} {owner}")
