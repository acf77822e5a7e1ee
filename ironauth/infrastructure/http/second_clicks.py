"""Forms that are sent twice by one double click: the second leads where the first one led.

A form that uses something up (a link, a code, a pushed request) notes its request once that has led somewhere. For
``WITHIN_S`` seconds the same request is known by that: the same address, body and browser. It gets what the first one
got, and no more: the view decides how. A browser that sends a form again has dropped the first answer, and with it a
cookie, perhaps.

The note is a MAC under the master keys. A request whose body differs in one character, or that comes from another
browser, is none of these.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final, NamedTuple
from uuid import UUID

from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto.master_keys import mac, register_purpose
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context

WITHIN_S: Final = 10
_PURPOSE: Final = register_purpose("ironauth second click")
_ONCE: Final = "click"
_ID_BYTES: Final = 16
#: Seconds between two looks: the first request may have used something up and not noted that yet.
_WAITS_S: Final = (0.0, 0.05, 0.1)


class First(NamedTuple):
    """What the first of two clicks has led to.

    Attributes:
        word: What was done.
        led_to: The session that was opened by it, or what else the view has noted; None for nothing.
    """

    word: str
    led_to: UUID | None


async def note(request: ApiRequest, word: str = "", *, led_to: UUID | None = None) -> None:
    """Note that a request has led somewhere; where nothing can be noted, it has led there all the same. 1 query, or 2.

    Args:
        request: The request of a form.
        word: What was done, where a form may do one thing or another.
        led_to: The session that it opened; None for none.
    """
    if request.method != "POST":
        return
    until = int(clock.unix()) + WITHIN_S
    with suppress(Unavailable):
        await database().write_autocommit(_note, click_of(request, word), until, led_to)


async def first_of(request: ApiRequest, *words: str, looks_once: bool = False) -> First | None:
    """Return what the same request has led to just before; None where there was none. 3 queries at most.

    Args:
        request: The request of a form, to be refused otherwise.
        words: What may have been done; none for "".
        looks_once: Whether no note is waited for: of a request that is refused in no case. 1 query.
    """
    if request.method != "POST":
        return None
    ids = {click_of(request, word): word for word in words or ("",)}
    for wait_s in _WAITS_S[:1] if looks_once else _WAITS_S:
        if wait_s:
            await asyncio.sleep(wait_s)
        for found, led_to in (await database().read(single_use.uses_of, _ONCE, list(ids))).items():
            return First(ids[found], led_to)
    return None


def claim(click: UUID, led_to: UUID) -> UUID:
    """Note what a click leads to before that is done, in the same unit of work; return what it does lead to.

    Of two clicks at once the later one waits for the commit of the other. Where the act is refused, its rollback takes
    the note back, and the later one may do it. Synchronous; 1 query, 2 for a form of the hour before, 3 for a second
    click.

    Args:
        click: Of ``click_of``.
        led_to: What the act is going to make.

    Returns:
        ``led_to``, where it is to be made; what the first click has made, where this one is the second.
    """
    if _note(click, int(clock.unix()) + WITHIN_S, led_to):
        return led_to
    return single_use.uses_of(_ONCE, [click]).get(click) or led_to


def _note(token_id: UUID, until: int, led_to: UUID | None) -> bool:
    """Note a click; return whether it was the first. The same form may have been sent within the last hour."""
    said = (_ONCE, token_id, until)
    return single_use.consume(*said, led_to=led_to) or single_use.renew(*said, led_to=led_to)


def click_of(request: ApiRequest, word: str = "") -> UUID:
    """Return what a request is known by. Each part says where it ends.

    Args:
        request: The request of a form.
        word: What is done, where a form may do one thing or another.
    """
    data: Any = request.data
    fields = sorted((name, value) for name in data for value in data.getlist(name))
    where = (word, request.get_full_path(), client_context.browser_of(request))
    parts = (*where, *(text for field in fields for text in field))
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    said = b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
    return UUID(bytes=mac(_PURPOSE, said)[:_ID_BYTES])
