"""What people and sign-ins do with kept devices; async, keyword-only."""

import uuid
from datetime import datetime

import msgspec
from django.http import HttpResponse

from accounts.mfa.kept_devices import queries, units
from accounts.mfa.kept_devices.queries import LiveDevice
from ironauth.config.cookies import KEPT_DEVICE
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError, NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.http.client_context import ClientContext


class KeptDeviceOut(msgspec.Struct, frozen=True):
    """A device on which the second factor is not asked for until ``expires_at``."""

    id: uuid.UUID
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime
    user_agent: str
    current: bool


async def find(*, user_id: uuid.UUID, epoch: int, secret: str) -> LiveDevice | None:
    """Return the live device of this person that has this secret.

    Args:
        user_id: Whose password was right.
        epoch: The account's when it was.
        secret: What the browser brings; "" for nothing.
    """
    if not secret:
        return None
    return await database().read(queries.find, user_id=user_id, epoch=epoch, secret=secret)


async def keep(response: HttpResponse, *, user_id: uuid.UUID, epoch: int, context: ClientContext) -> uuid.UUID | None:
    """Keep the browser as a device of this person, who has just proved a second factor on it, and give it the cookie.

    Nothing is kept where the account has changed meanwhile, or nothing can be stored: they are asked the next time.
    Returns the device, None for none.

    Args:
        response: The answer to the sign-in.
        user_id: Whose device it is.
        epoch: The account's when the factor was proved.
        context: Where the sign-in comes from.
    """
    try:
        kept = await database().write(
            units.keep,
            user_id=user_id,
            epoch=epoch,
            user_agent=context.user_agent,
            before=context.kept_device,
        )
    except DomainError:  # they are signed in all the same
        return None
    if kept is None:
        return None
    age_s = int((kept.expires_at - clock.now()).total_seconds())
    cookies.give(response, KEPT_DEVICE, kept.secret, max_age_s=age_s)
    return kept.id


async def list_devices(*, user_id: uuid.UUID, secret: str) -> list[KeptDeviceOut]:
    """Return a person's kept devices, the newest first.

    Args:
        user_id: Who asks.
        secret: What their browser brings, to tell which one it is.
    """
    mine = queries.digest_of(secret) if secret else ""
    return [
        KeptDeviceOut(
            one.pk, one.created_at, one.last_used_at, one.expires_at, one.user_agent, bool(mine) and one.digest == mine
        )
        for one in await database().read(queries.of_user, user_id)
    ]


async def end(*, user_id: uuid.UUID, device_id: uuid.UUID, session_id: uuid.UUID) -> None:
    """End one of a person's devices.

    Args:
        user_id: Who asks.
        device_id: Which device.
        session_id: The session it is done in.

    Raises:
        NotFound: They have no such device; another person's is not told apart.
    """
    if not await database().write(units.end, user_id=user_id, device_id=device_id, session_id=session_id):
        raise NotFound("You have no such device: see /api/v1/access/kept-devices for those you have.")
