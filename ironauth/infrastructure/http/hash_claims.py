"""Who asks for a hash: the client's network, and the account, so that the hash pool can be fair between them.

Both are found in the request being answered, so that no caller can forget them. A signed-in person is the same owner in
every network. An account that somebody only names, in order to sign in, is a separate owner in each network: a stranger
who names it must not take its places from the person it belongs to. A command, and what a server does by itself, have
no claim.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.threads.jobs import Claim

_named: ContextVar[str] = ContextVar("ironauth_hash_owner", default="")


@contextmanager
def named(owner: str) -> Iterator[None]:
    """Let what is hashed in this block be for ``owner``, an account that nobody has proved to be theirs yet."""
    token = _named.set(owner)
    try:
        yield
    finally:
        _named.reset(token)


def current() -> Claim:
    """Return the claim of what is hashed here, also on a pool's thread."""
    network = client_context.network()
    caller = client_context.caller_id()
    if caller is not None:
        return Claim(network, caller.hex)
    owner = _named.get()
    return Claim(network, f"{network} {owner}" if owner else "")
