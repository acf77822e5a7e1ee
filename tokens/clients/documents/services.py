"""Finding a client by the address of its document."""

from typing import Any, Final

import msgspec
from django.conf import settings

from accounts.lockout import rate_limits
from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from tokens.clients.documents import addresses, fetching, queries
from tokens.clients.documents.errors import DocumentRefused
from tokens.clients.models import client_tag
from tokens.clients.registry import KEEP_S, Client
from tokens.resources.models import SELF_REGISTERED_TAG

#: Seconds for which a document that was refused is not asked for again: a page loaded twice asks once.
REST_S: Final = 10.0


class _Fetched(msgspec.Struct, frozen=True):
    """What an address had, None for nothing that can be used; and until when that holds, in unix seconds."""

    said: dict[str, Any] | None
    until: float


class _Found(msgspec.Struct, frozen=True):
    """What became of it here."""

    client: Client | None


async def find(url: str) -> Client | None:
    """Return the enabled client whose document is at an address; None for an address that has none.

    No query and no request while it is known: the document as long as its headers say, what staff say of it until they
    say something else. One request, for all who ask at once, and 4 queries otherwise.

    Args:
        url: The ``client_id`` as it was received.

    Raises:
        Throttled: (429) Too many documents were fetched for the network that the request comes from, or in all.
    """
    if not settings.IRONAUTH_CLIENT_DOCUMENTS or not addresses.is_accepted(url):
        return None
    client_id = str(addresses.id_of(url))
    tag = client_tag(client_id)

    async def load() -> "Loaded[_Found]":
        fetched = await _document(url, client_id)
        said = fetched.said
        client = await database().read(queries.described, url, said) if said is not None else None
        until = min(clock.unix() + KEEP_S, fetched.until)
        return Loaded(_Found(client), tags, until, absent=client is None, secret=True)  # as in ``registry.find``

    tags = (tag, SELF_REGISTERED_TAG)
    found = await token_cache().fetch(f"cu:{client_id}", load, _Found, tags=tags, asked=True)
    return found.client


async def _document(url: str, client_id: str) -> _Fetched:
    """Return what the document at an address says."""
    tag = f"document:{client_id}"

    async def load() -> "Loaded[_Fetched]":
        await rate_limits.admit(rate_limits.REGISTRATION, address=client_context.current().address)
        try:
            known = await database().read(queries.is_verified, url)
            document = await fetching.fetch(url, known=known)
        except DocumentRefused:
            until = clock.unix() + REST_S
            return Loaded(_Fetched(None, until), (tag,), until, absent=True)
        until = clock.unix() + document.keep_s
        return Loaded(_Fetched(document.said, until), (tag,), until)

    return await token_cache().fetch(f"cd:{client_id}", load, _Fetched, tags=(tag,))
