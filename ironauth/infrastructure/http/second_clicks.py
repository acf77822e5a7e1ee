"""Forms that are sent twice by one double click: the second leads where the first one led.

A form that uses something up (a link, a code, a pushed request) notes its request once that has led somewhere. For
``WITHIN_S`` seconds the same request is known by that: the same address, body and browser. It gets what the first one
got, and no more: the view decides how. A browser that sends a form again has dropped the first answer, and with it a
cookie, perhaps.

A form that nothing is used up by, and that has a message sent, notes that it has begun as well (``led_once``): the
second request waits for the first one, and sends no message of its own.

The note is a MAC under the master keys. A request whose body differs in one character, or that comes from another
browser, is none of these.
"""

import asyncio
from collections.abc import Awaitable, Callable
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
#: The same for what takes a hash, and a place in its queue: 3 seconds in all, 7 queries.
_WAITS_FOR_ACT_S: Final = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


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


async def first_of(request: ApiRequest, *words: str) -> First | None:
    """Return what the same request has led to just before; None where there was none. 3 queries at most.

    Args:
        request: The request of a form, to be refused otherwise.
        words: What may have been done; none for "".
    """
    if request.method != "POST":
        return None
    ids = {click_of(request, word): word for word in words or ("",)}
    for wait_s in _WAITS_S:
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


async def led_once(request: ApiRequest, word: str, act: Callable[[], Awaitable[UUID]]) -> UUID:
    """Do what a request asks for, once for two clicks; return what it has led to. 2 or 3 queries more than the act.

    The second click waits for the first one, 3 seconds at most. After that it acts as well; so does whatever comes
    after an act that was refused. The act goes on where a browser drops its request for the second one.

    Args:
        request: The request of a form, whose method is POST.
        word: What is done.
        act: Does it, and returns what it has led to.

    Raises:
        Unavailable: The database cannot be written to.
        DomainError: What the act raises.
    """
    done, begun = click_of(request, word), click_of(request, f"{word} begun")
    begins = await database().write_autocommit(_note, begun, int(clock.unix()) + WITHIN_S, None)
    for wait_s in () if begins else _WAITS_FOR_ACT_S:
        await asyncio.sleep(wait_s)
        uses = await database().read(single_use.uses_of, _ONCE, [done, begun])
        if (led_to := uses.get(done)) is not None:
            return led_to
        if begun not in uses:  # the first one was refused: of those that wait one is the first now
            begins = await database().write_autocommit(_note, begun, int(clock.unix()) + WITHIN_S, None)
            if begins:
                break
    return await asyncio.shield(_acted(act, done, begun if begins else None))


async def _acted(act: Callable[[], Awaitable[UUID]], done: UUID, begun: UUID | None) -> UUID:
    """Act, and note it; where another request has finished meanwhile, return what that one has led to.

    Args:
        act: As of ``led_once``.
        done: What the note of it is known by.
        begun: The same of the note that it has begun, if this request has made that.
    """
    try:
        led_to = await act()
    except BaseException:
        if begun is not None:
            with suppress(Unavailable):
                await database().write(single_use.give_back, _ONCE, begun)
        raise
    if begun is None:
        first = (await database().read(single_use.uses_of, _ONCE, [done])).get(done)
        if first is not None:
            return first
    with suppress(Unavailable):
        await database().write_autocommit(_note, done, int(clock.unix()) + WITHIN_S, led_to)
    return led_to


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
