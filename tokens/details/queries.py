"""Registered types as requests see them, kept in memory until one is changed; and asked inside units of work.

Nothing here is entered for a request, a client and a grant without authorization details.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from tokens.details import lists, members
from tokens.details.members import TYPE, Member
from tokens.details.models import TYPES_TAG, DetailType

KEEP_S: Final = 300.0  # seconds; a change is heard of long before
_KEY: Final = "details:types"


class KnownType(msgspec.Struct, frozen=True):
    """An active type: the sentence, the members, and whether clients may have it for themselves."""

    words: str
    members: dict[str, Member]
    unattended: bool


class _Types(msgspec.Struct, frozen=True):
    """All active ones, by identifier."""

    known: dict[str, KnownType]


async def registered() -> Mapping[str, KnownType]:
    """Return the active types by identifier. 1 query, none when they are known already.

    Raises:
        Unavailable: (503) they cannot be asked for.
    """

    async def load() -> "Loaded[_Types]":
        return Loaded(_Types(await database().read(_read)), (TYPES_TAG,), clock.unix() + KEEP_S)

    return (await token_cache().fetch(_KEY, load, _Types, tags=(TYPES_TAG,))).known


async def offered() -> tuple[str, ...]:
    """Return the identifiers of active types, for the metadata; none while the database cannot be asked."""
    try:
        return tuple(await registered())
    except Unavailable:
        return ()


def _read() -> dict[str, KnownType]:
    rows = DetailType.objects.filter(active=True)
    return {row.identifier: KnownType(row.words, members.declared(row.members), row.unattended) for row in rows}


def given_out(*, granted: str, asked: str, allowed: Collection[str]) -> str | None:
    """Return the details that a token of a grant has, as they are stored. 1 query where the grant has some.

    Args:
        granted: Those of the grant, stored.
        asked: Those that the request names, stored: some of the grant's, or "" for all of them.
        allowed: The types that the client may have.

    Returns:
        None where the grant has not each of those that the request names. Without any named, those whose type is not
        registered and active any more, or was taken from the client, are left out.
    """
    if not granted:
        return None if asked else ""
    given, wanted = lists.stored(granted), lists.stored(asked)
    if not lists.is_within(wanted, given):
        return None
    chosen = wanted or given
    active = _active(chosen, allowed)
    left = [one for one in chosen if one[TYPE] in active]
    return None if wanted and len(left) < len(wanted) else lists.joined(map(lists.written, left))


def _active(details: Iterable[Mapping[str, Any]], allowed: Collection[str]) -> frozenset[str]:
    types = {one[TYPE] for one in details} & set(allowed)
    return frozenset(DetailType.objects.filter(identifier__in=types, active=True).values_list("identifier", flat=True))


def unregistered(given: Iterable[str]) -> list[str]:
    """Return those identifiers that are not registered. One query."""
    wanted = list(dict.fromkeys(given))
    known = set(DetailType.objects.filter(identifier__in=wanted).values_list("identifier", flat=True))
    return [one for one in wanted if one not in known]
