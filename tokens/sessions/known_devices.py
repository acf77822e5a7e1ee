"""What people have signed in with, so that they hear of a sign-in by something else: a unit of work.

A device is known by its cookie, or by what kind of browser it is and in which network. This is a matter of messages
only; a lockout knows devices by itself (``accounts.lockout.throttling``).
"""

import ipaddress
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.db import models

from accounts.lockout.rate_limits import mac
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import UNKNOWN_ADDRESS, Kind
from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.core.user_agents import family, kind, parts
from ironauth.infrastructure.db.compiled import CompiledInsert, CompiledSelect, CompiledUpdate, Param, given_row
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions.models import KnownDevice

MOST: Final = 20  # devices of one person; another one takes the place of the one not seen for longest
KNOWN_FOR: Final = timedelta(days=180)  # after half a year away a sign-in is worth a message, wherever it comes from
NOTED_EVERY: Final = timedelta(days=1)  # so that a sign-in like yesterday's costs no extra write
#: Bits of an address that stay when an access provider gives the same home another one over night. A message every
#: morning would be ignored on the day it matters.
NETWORK_BITS: Final = {4: 16, 6: 32}

_ID: Final = Param("id", models.UUIDField())
_PLACE: Final = Param("place", models.CharField())
_DEVICE: Final = Param("device", models.CharField())
_SEEN_AT: Final = Param("seen_at", models.DateTimeField())
_OF_USER: Final = CompiledSelect(
    lambda: (
        KnownDevice.objects.filter(user_id=Param("user_id", models.UUIDField()))
        .order_by("-seen_at", "-id")
        .values_list("id", "place", "device", "seen_at")[:MOST]
    )
)
_INSERT: Final = CompiledInsert(lambda: given_row(KnownDevice))
_UPDATE: Final = CompiledUpdate(
    lambda: KnownDevice.objects.filter(pk=_ID), place=_PLACE, device=_DEVICE, seen_at=_SEEN_AT
)


class _Known(NamedTuple):
    """A device as it was when it was seen last."""

    id: UUID
    place: str
    device: str
    seen_at: datetime


def note(*, account: Account, context: ClientContext) -> None:
    """Remember what the person signs in with, and have them told when it is new; nobody is told of their first device.

    One query for a device without cookie that was seen within the day; one more otherwise, and one for the message.

    Args:
        account: Who signs in.
        context: Where the sign-in comes from, with the device cookie it brought and the one it is given.
    """
    now = clock.now()
    known = [_Known(*row) for row in _OF_USER.rows(user_id=account.id)]
    place = _mac("place", account.id, f"{family(context.user_agent)} {_network(context.address)}")
    brought, given = (_mac("device", account.id, cookie) for cookie in (context.device, context.new_device))
    recent = [one for one in known if now - one.seen_at < KNOWN_FOR]
    by_cookie = next((one for one in recent if brought and one.device == brought), None)
    alike = next((one for one in recent if one.place == place), None)
    if known and by_cookie is None and alike is None:
        _tell(account, context, now)
    # A browser that does not bring the cookie of the one alike may be another one beside it: each has its row.
    same = by_cookie or (alike if alike is not None and not (given and alike.device) else None)
    if same is None:
        _add(account.id, known, _Known(new_id(), place, given, now))
    elif given or same.place != place or now - same.seen_at >= NOTED_EVERY:
        _UPDATE.run(id=same.id, place=place, device=given or same.device, seen_at=now)


def _add(user_id: UUID, known: list[_Known], new: _Known) -> None:
    """Store a device, in the place of the one not seen for longest when there are many. One query."""
    if len(known) < MOST:
        _INSERT.run(user_id=user_id, **new._asdict())
    else:
        _UPDATE.run(**new._replace(id=known[-1].id)._asdict())


def _tell(account: Account, context: ClientContext, now: datetime) -> None:
    """Queue the message. One query."""
    browser, system = parts(context.user_agent)  # in our words: it is sent in this product's name
    facts = {
        "seen_at": now.isoformat(),
        "browser": browser,
        "system": system,
        "address": context.address or UNKNOWN_ADDRESS,
        # What workers of an earlier release say of it.
        "time": f"{now.day} {now:%B %Y, %H:%M} UTC",
        "device": kind(context.user_agent),
    }
    outbox.enqueue(Kind.NEW_DEVICE, recipient=account.user.email, user_id=account.id, facts=facts)


def _mac(kind: str, user_id: UUID, text: str) -> str:
    """Return what is stored of ``text``; "" of nothing. A new SECRET_KEY makes every device a new one."""
    return mac(f"known {kind}", str(user_id), text) if text else ""


def _network(address: str) -> str:
    if not address:
        return ""
    found = ipaddress.ip_address(address)
    found = getattr(found, "ipv4_mapped", None) or found  # else all of IPv4 would be one network on an IPv6 socket
    return str(ipaddress.ip_network(f"{found}/{NETWORK_BITS[found.version]}", strict=False))
