"""Fetching a client's document, and reading it."""

from typing import Any, Final, NamedTuple

from tokens.clients.documents.errors import DocumentRefused
from tokens.clients.fetched import fetching
from tokens.clients.fetched.errors import FetchRefused
from tokens.clients.fetched.fetching import Answer

LONGEST: Final = 5 * 1024  # bytes: the draft's §8.7


class Document(NamedTuple):
    """What a client says about itself, and for how many seconds that may be used."""

    said: dict[str, Any]
    keep_s: float


async def fetch(url: str, *, known: bool = False) -> Document:
    """Return the document at an address that ``addresses.is_accepted`` has passed.

    Args:
        url: The ``client_id``.
        known: Whether staff have verified the client.

    Raises:
        DocumentRefused: There is no such answer in time, or it is none that can be used.
    """
    try:
        answer = await fetching.fetch(url, accept="application/json", longest=LONGEST, known=known)
        return Document(document_of(url, answer), answer.keep_s)
    except FetchRefused as error:
        raise DocumentRefused(str(error)) from error


def document_of(url: str, answer: Answer) -> dict[str, Any]:
    """Return the document that an answer is.

    Args:
        url: The ``client_id``; the document has to name itself by the same text.
        answer: What was there.

    Raises:
        FetchRefused: It is no JSON object with one meaning, is another client's, or has a secret in it.
    """
    said = fetching.json_of(url, answer)
    if not isinstance(said, dict):
        raise fetching.refused(url, "no object")
    if said.get("client_id") != url:
        raise fetching.refused(url, "client_id")
    if said.keys() & {"client_secret", "client_secret_expires_at"}:
        raise fetching.refused(url, "secret")
    return said
