"""The logo of a client: fetched once, when a page first shows it, and served from our own copy ever after.

So a page of ours never has a browser call an address that a stranger chose, and what staff have looked at stays as it
was: another picture needs another address, which makes a client of a stranger unverified again. One that had no picture
when it was verified has none until then (``settled``).
"""

from hashlib import sha256
from typing import Final

import msgspec

from accounts.lockout import rate_limits
from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from tokens.clients.fetched import fetching, pictures, units
from tokens.clients.fetched.errors import FetchRefused
from tokens.clients.fetched.units import Picture
from tokens.clients.models import OAuthClient, client_tag
from tokens.clients.registry import Client

LONGEST: Final = 64 * 1024  # bytes
#: Seconds for which an address without a picture is not asked again.
REST_S: Final = 600.0
_MARK: Final = 32  # hexadecimal digits: nobody finds two states of one mark
_ACCEPT: Final = "image/png, image/jpeg, image/webp"


class _Tried(msgspec.Struct, frozen=True):
    """That an address was asked just now."""


async def of(client: Client) -> Picture | None:
    """Return our copy of a client's logo; None where it has none that can be shown. 1 query, the first time 4 more.

    Args:
        client: The client.

    Raises:
        Throttled: (429) Too many were fetched for the network that the request comes from, or in all.
    """
    if not client.logo_uri:
        return None
    kept = await database().read(units.read, client.id, client.logo_uri)
    if kept is not None:
        return kept if kept.media else None

    async def load() -> "Loaded[_Tried]":
        await rate_limits.admit(rate_limits.REGISTRATION, address=client_context.current().address)
        tried = Loaded(_Tried(), (client_tag(client.client_id),), clock.unix() + REST_S, absent=True)
        try:
            known = not client.unverified
            answer = await fetching.fetch(client.logo_uri, accept=_ACCEPT, longest=LONGEST, known=known)
        except FetchRefused:
            return tried
        if media := pictures.media_of(answer.body):
            await database().write(units.keep, client.id, client.logo_uri, Picture(media, answer.body))
        return tried

    await token_cache().fetch(f"cl:{client.client_id}", load, _Tried, tags=(client_tag(client.client_id),))
    kept = await database().read(units.read, client.id, client.logo_uri)
    return kept if kept is not None and kept.media else None


def settled(*, client: OAuthClient, **_kwargs: object) -> None:
    """Let a client's logo be what is here now, also where that is none; a receiver of ``queries.client_verified``.

    Else the stranger could choose a picture for this address after staff have looked. 4 queries, 0 without a logo.

    Args:
        client: The client, locked.
    """
    if client.logo_uri:
        units.keep(client.pk, client.logo_uri, units.NO_PICTURE)


def mark_of(client: OAuthClient) -> str:
    """Return a mark of the copy that people are shown of a client's logo, "" for none here. 1 query.

    Another picture has another one, also at the same address: the client had another address in between.

    Args:
        client: The client.
    """
    kept = units.read(client.pk, client.logo_uri)
    return sha256(kept.content).hexdigest()[:_MARK] if kept is not None and kept.media else ""
