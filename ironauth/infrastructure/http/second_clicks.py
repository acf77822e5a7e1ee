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
        await database().write_autocommit(_note, _id_of(request, word), until, led_to)


async def first_of(request: ApiRequest, *words: str, looks_once: bool = False) -> First | None:
    """Return what the same request has led to just before; None where there was none. 3 queries at most.

    Args:
        request: The request of a form, to be refused otherwise.
        words: What may have been done; none for "".
        looks_once: Whether no note is waited for: of a request that is refused in no case. 1 query.
    """
    if request.method != "POST":
        return None
    ids = {_id_of(request, word): word for word in words or ("",)}
    for wait_s in _WAITS_S[:1] if looks_once else _WAITS_S:
        if wait_s:
            await asyncio.sleep(wait_s)
        for found, led_to in (await database().read(single_use.uses_of, _ONCE, list(ids))).items():
            return First(ids[found], led_to)
    return None


def _note(token_id: UUID, until: int, led_to: UUID | None) -> None:
    if not single_use.consume(_ONCE, token_id, until, led_to=led_to):
        single_use.renew(_ONCE, token_id, until, led_to=led_to)  # the same form was sent within the last hour


def _id_of(request: ApiRequest, word: str) -> UUID:
    """Return what a request is known by. Each part says where it ends."""
    data: Any = request.data
    fields = sorted((name, value) for name in data for value in data.getlist(name))
    where = (word, request.get_full_path(), client_context.browser_of(request))
    parts = (*where, *(text for field in fields for text in field))
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    said = b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
    return UUID(bytes=mac(_PURPOSE, said)[:_ID_BYTES])
