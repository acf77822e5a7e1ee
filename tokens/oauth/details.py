"""Which authorization details a request asks for, and whether its client may have them (RFC 9396).

Nothing here asks the database where a request has none.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from tokens.clients.errors import InvalidAuthorizationDetails
from tokens.clients.registry import Client
from tokens.details import lists, members, queries, words
from tokens.details.lists import InvalidDetails
from tokens.details.members import TYPE
from tokens.details.queries import KnownType
from tokens.details.words import Shown

#: Said of a type that is not registered, and of one that is another client's to ask for: alike.
_NOT_YOURS: Final = "authorization_details has a type that is not known here, or that this client may not ask for."
_PERSONS: Final = "authorization_details has a type that only a person can allow."


class Asked(NamedTuple):
    """One object that a request asks for: its type, itself as it is stored, and the sentence for the person."""

    type: str
    detail: str
    words: str

    @property
    def shown(self) -> Shown:
        """What the person reads."""
        return words.shown(self.words, lists.stored(f"[{self.detail}]")[0])


def read(text: str) -> str:
    """Return a list of a request as it is stored; whether anybody may have it is not judged.

    Args:
        text: The parameter as it was received.

    Raises:
        InvalidAuthorizationDetails: It is malformed.
    """
    try:
        return lists.joined(map(lists.written, lists.read(text)))
    except InvalidDetails as refused:
        raise InvalidAuthorizationDetails(str(refused)) from refused


async def asked(client: Client, text: str) -> tuple[Asked, ...]:
    """Return what a request of a person's consent asks for. 1 query where the types are not known yet.

    Args:
        client: Who asks.
        text: The parameter as it was received, "" for none.

    Raises:
        InvalidAuthorizationDetails: It is malformed, of a type that is unknown or not for this client, or of other
            members than its type has.
    """
    return tuple([one for one, _ in await _judged(client, text)]) if text else ()


async def of_client_itself(client: Client, text: str) -> str:
    """Return what a client gets by itself (RFC 6749 §4.4), as it is stored. Queries as ``asked``.

    Args:
        client: Who asks.
        text: As ``read`` returns it.

    Raises:
        InvalidAuthorizationDetails: As ``asked``, and for a type that only a person can allow.
    """
    found = await _judged(client, text)
    if not all(known.unattended for _, known in found):
        raise InvalidAuthorizationDetails(_PERSONS)
    return stored(one for one, _ in found)


def stored(details: Iterable[Asked]) -> str:
    """Return details as they are stored, "" for none."""
    return lists.joined(one.detail for one in details)


async def _judged(client: Client, text: str) -> list[tuple[Asked, KnownType]]:
    try:
        given = lists.read(text)
    except InvalidDetails as refused:
        raise InvalidAuthorizationDetails(str(refused)) from refused
    types = await queries.registered() if client.authorization_details_types else {}
    found = []
    for one in given:
        name = one[TYPE]
        known = types.get(name) if name in client.authorization_details_types else None
        if known is None:
            raise InvalidAuthorizationDetails(_NOT_YOURS)
        problem = members.problem_of({key: value for key, value in one.items() if key != TYPE}, known.members)
        if problem is not None:
            raise InvalidAuthorizationDetails(f"An object of authorization_details {problem}")
        found.append((Asked(name, lists.written(one), known.words), known))
    return found
