"""Every ``code`` of a problem and every ``error`` of an OAuth endpoint, each with what it means and its remedies.

The pages of error codes are made from this table, here (``/api/errors``) and in the documentation. A test compares it
with the code and with the OpenAPI document: what is answered stands here, and what stands here is answered.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ironauth.config.error_codes import oauth, organizations, people, requests, staff
from ironauth.config.error_codes.code import ErrorCode
from ironauth.config.error_codes.related import related

#: The pages of this host that explain them; ``type`` of a problem document is this path with the code as fragment.
PAGE: Final = "/api/errors"
#: The chapter of the OAuth endpoints' errors.
OAUTH_CHAPTER: Final = "OAuth 2.0"
#: What its places begin with: some of these errors are spelled as a code of the API is.
OAUTH_PREFIX: Final = "oauth-"

#: Each chapter of the page, with its codes.
CHAPTERS: Final[dict[str, tuple[ErrorCode, ...]]] = {
    "Before an operation is reached": requests.ANYWHERE,
    "What is sent": requests.INPUT,
    "Credentials and permissions": people.CREDENTIALS,
    "Signing in": people.SIGN_IN,
    "One's own account": people.ACCOUNT,
    "Organizations": organizations.ORGANIZATIONS,
    "Staff and operators": staff.STAFF,
}
CODES: Final[dict[str, ErrorCode]] = {one.code: one for codes in CHAPTERS.values() for one in codes}
OAUTH_ERRORS: Final[dict[str, ErrorCode]] = {one.code: one for one in oauth.OAUTH}


class Entry(NamedTuple):
    """What the page of a code has: its place, the code, the operations that answer it, and the places near it.

    ``without``: what is said where no operation is named.
    """

    place: str
    one: ErrorCode
    operations: tuple[str, ...]
    related: tuple[str, ...]
    without: str

    @property
    def is_oauth(self) -> bool:
        """Whether it is the ``error`` of an OAuth endpoint."""
        return self.place != self.one.code

    @property
    def statuses(self) -> tuple[int, ...]:
        """With which it is answered: an OAuth error that no operation answers is told in a redirect."""
        return (303,) if self.is_oauth and not self.operations else self.one.statuses


def problem_type(code: str) -> str:
    """Return the ``type`` of a problem: its place on the page, or ``about:blank`` for a code of somebody else's.

    A path of the host that answered (RFC 9457 §3.1.1 allows a relative reference with its full path). It is the same on
    every installation, and the page is that of the release that answered. The browser shows that code's page alone.
    Clients may compare it as they compare ``code``, so it stays as it is.
    """
    return f"{PAGE}#{code}" if code in CODES else "about:blank"


def entries(document: Mapping[str, Any]) -> dict[str, list[Entry]]:
    """Return the entries of every chapter, the OAuth endpoints' last.

    Args:
        document: The OpenAPI document.
    """
    used = operations(document)
    chapters = {name: [_entry(one, one.code, used) for one in codes] for name, codes in CHAPTERS.items()}
    chapters[OAUTH_CHAPTER] = [_entry(one, f"{OAUTH_PREFIX}{one.code}", used) for one in OAUTH_ERRORS.values()]
    return chapters


def _entry(one: ErrorCode, place: str, used: Mapping[str, list[str]]) -> Entry:
    if one in requests.ANYWHERE:
        return Entry(place, one, (), tuple(related(place)), "Any request may be answered so.")
    without = "In the redirect of /oauth/authorize to the application."
    if place == one.code:
        without = "No operation of the API document. Pages for people answer it, or paths that are not in the document."
    return Entry(place, one, tuple(used.get(place, ())), tuple(related(place)), without)


def operations(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return which operations can answer what has each place, as ``POST /path``.

    Args:
        document: The OpenAPI document. Its answer for every status that is not listed does not count.
    """
    found: dict[str, list[str]] = {}
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for code in sorted(set(_of_operation(operation, schemas))):
                found.setdefault(code, []).append(f"{method.upper()} {path}")
    return found


def _of_operation(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        yield from answered(status, answer, schemas)


def answered(status: str, answer: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """Yield the places of the codes that an answer may have; of ``default`` none, which may have any.

    Args:
        status: Of the answer.
        answer: As the operation has it in the OpenAPI document.
        schemas: The components of the document.
    """
    for media in answer.get("content", {}).values() if status != "default" and status >= "4" else ():
        fields = schemas.get(media["schema"].get("$ref", "").rpartition("/")[2], {}).get("properties", {})
        yield from fields.get("code", {}).get("enum", ())
        yield from (f"{OAUTH_PREFIX}{error}" for error in fields.get("error", {}).get("enum", ()))
