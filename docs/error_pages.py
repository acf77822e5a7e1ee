"""The pages of error codes: one with the list, and one for each code, from the registry and the OpenAPI document."""

import json
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from ironauth.config import error_codes
from ironauth.config.table import SETTINGS

_DOCUMENT: Final = Path(__file__).resolve().parents[1] / "ironauth" / "openapi.json"


def _entries() -> dict[str, list[error_codes.Entry]]:
    return error_codes.entries(json.loads(_DOCUMENT.read_text(encoding="utf-8")))


def anchor(operation: str) -> str:
    """Return what links call an operation on the page of the HTTP API.

    Args:
        operation: Its method and path.
    """
    return re.sub(r"[^a-z0-9_]+", "-", operation.lower()).strip("-")


def links(document: Mapping[str, Any], status: str, answer: Mapping[str, Any]) -> str:
    """Return links to the codes of an answer, for a cell; without those that any request may be answered with.

    Args:
        document: The OpenAPI document.
        status: Of the answer.
        answer: As the operation has it.
    """
    anywhere = {one.code for one in next(iter(error_codes.CHAPTERS.values()))}
    places = error_codes.answered(status, answer, document["components"]["schemas"])
    return ", ".join(f"[{_name(place)}](errors/{place}.md)" for place in sorted(set(places) - anywhere))


def _name(place: str) -> str:
    return place.removeprefix(error_codes.OAUTH_PREFIX)


def index() -> Iterator[str]:
    """Yield the lines of the page that lists every code."""
    yield "# Error codes\n"
    yield "The `code` of a problem document (RFC 9457). Programs compare the code, which never changes its meaning."
    yield "The `detail` is for people, and may change. The `type` of a problem leads to the page of its code on the"
    yield f"server itself, below `{error_codes.PAGE}`: that page is of the release that answered. Endpoints below"
    yield "`/oauth/` answer with an `error` of RFC 6749 instead.\n"
    for chapter, entries in _entries().items():
        yield f"## {chapter}\n\n| code | status | meaning |\n|---|---|---|"
        for entry in entries:
            meaning = " ".join(entry.one.meaning.replace("|", "\\|").split())
            yield f"| [{entry.one.code}](errors/{entry.place}.md) | {_statuses(entry)} | {meaning} |"
        yield ""
    yield "```{toctree}\n:hidden:\n:maxdepth: 1\n:glob:\n\nerrors/*\n```"


def _statuses(entry: error_codes.Entry) -> str:
    return ", ".join(map(str, entry.statuses))


def each() -> dict[str, list[str]]:
    """Return the lines of the page of each code, by its place."""
    entries = [entry for chapter in _entries().values() for entry in chapter]
    return {entry.place: list(_page(entry)) for entry in entries}


def _page(entry: error_codes.Entry) -> Iterator[str]:
    from ironauth.infrastructure.api.openapi_examples import answers  # noqa: PLC0415 - Django has to be set up first

    one = entry.one
    yield f"# {one.code}\n" if not entry.is_oauth else f"# {one.code} (OAuth)\n"
    titles = " or ".join(f"{status} {HTTPStatus(status).phrase}" for status in entry.statuses)
    yield f"**{titles}.** {one.meaning}\n"
    if not entry.is_oauth:
        yield f"`type` is `{error_codes.problem_type(one.code)}`.\n"
    yield f"## What the caller does\n\n{one.remedy}\n"
    yield f"## What the operator does\n\n{_with_settings(one.operator)}\n"
    yield "## Example\n"
    for answer in answers(entry):
        yield f"```text\n{answer}\n```\n"
    yield "## Operations\n"
    if entry.operations:
        yield from (f"- [`{operation}`](#{anchor(operation)})" for operation in entry.operations)
    else:
        yield entry.without
    if entry.related:
        yield "\n## Related codes\n"
        yield from (f"- [{_name(place)}]({place}.md){_oauth(place)}: {_meaning(place)}" for place in entry.related)


def _oauth(place: str) -> str:
    return " (OAuth)" if place.startswith(error_codes.OAUTH_PREFIX) else ""


def _meaning(place: str) -> str:
    registry = error_codes.OAUTH_ERRORS if _oauth(place) else error_codes.CODES
    return registry[_name(place)].meaning


def _with_settings(text: str) -> str:
    """Return a text with a link at each setting that it names."""
    named = "|".join(sorted(SETTINGS, key=len, reverse=True))
    return re.sub(rf"\b({named})\b", lambda found: f"[{found[1]}](../settings.md#{found[1].lower()})", text)
