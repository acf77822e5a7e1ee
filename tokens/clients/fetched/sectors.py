"""The list of a sector (OpenID Connect Core §8.1, Registration §5): clients in it share what people are called."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from tokens.clients.errors import InvalidClientMetadata
from tokens.clients.fetched import addresses, fetching
from tokens.clients.fetched.errors import FetchRefused

LONGEST: Final = 64 * 1024  # bytes: some hundred addresses


def host_of(uri: str) -> str:
    """Return the sector that an address stands for.

    Args:
        uri: The ``sector_identifier_uri``.

    Raises:
        InvalidClientMetadata: It is none that this server fetches.
    """
    if addresses.problem_of(uri):
        raise InvalidClientMetadata("sector_identifier_uri is no https address of a public host.")
    return urlsplit(uri).hostname or ""


async def require_all(uri: str, redirect_uris: Iterable[str]) -> None:
    """Return when the list at an address names each of these redirect URIs.

    Args:
        uri: The ``sector_identifier_uri``, which ``host_of`` has passed.
        redirect_uris: All of the client's.

    Raises:
        InvalidClientMetadata: It lacks one, or cannot be had.
    """
    try:
        listed = fetching.json_of(uri, await fetching.fetch(uri, accept="application/json", longest=LONGEST))
    except FetchRefused as error:
        raise InvalidClientMetadata("sector_identifier_uri has no JSON that can be fetched from here.") from error
    if not isinstance(listed, list) or not set(redirect_uris) <= {one for one in listed if isinstance(one, str)}:
        raise InvalidClientMetadata("sector_identifier_uri is no list that names every redirect_uri of the client.")
