"""Handing people everything held about them, and the end of their account; async, keyword-only."""

import uuid

from django.db import IntegrityError

from accounts.audit import recording as audit
from accounts.errors import EmailTaken
from accounts.lockout import rate_limits
from accounts.outbox.tokens import FoundToken
from accounts.privacy import export, units
from accounts.privacy.outputs import Deleted
from accounts.users.outputs import ExportOut
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


async def export_own_data(*, user_id: uuid.UUID, session_id: uuid.UUID | None = None) -> ExportOut:
    """Return everything held about the person, ``export.MOST_ROWS`` rows of a section, with an event in the trail.

    Args:
        user_id: The person who is signed in.
        session_id: The session it is done in, for the trail.

    Raises:
        Throttled: After too many in an hour.
    """
    await rate_limits.admit_account(rate_limits.EXPORT, user_id=user_id)
    held = await database().read_since(await database().position(), export.collect, user_id)
    # Read first, and on a reader's thread: SQLite's only writer is not kept waiting. Nothing is handed out unrecorded.
    await database().write(
        audit.record, audit.Event.DATA_EXPORTED, actor_id=user_id, user_id=user_id, session_id=session_id
    )
    get_logger().info("data_exported", user_id=str(user_id), by=str(user_id))
    return held


async def request_deletion(*, user_id: uuid.UUID, old: str, session_id: uuid.UUID | None) -> None:
    """End the account as `units.request` does.

    Args:
        user_id: Whose it is.
        old: The hash the password was right for.
        session_id: The session it is done in.

    Raises:
        DomainError: What `units.request` raises.
    """
    await database().write(units.request, user_id=user_id, old=old, session_id=session_id)


async def deleted_by(*, token: str) -> Deleted | None:
    """Return which account this token would restore; None when it is good for nothing."""
    return await database().read(units.deleted_by, token)


async def restore(*, found: FoundToken) -> bool:
    """Take a deletion back; return whether the address was ever proved.

    Raises:
        IntegrityError: Somebody else has the address by now.
        InvalidEmailToken: The token was used meanwhile.
    """
    return await database().write(units.restore, found=found)


async def restore_for_staff(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Let somebody who is being deleted in again as they were.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The account.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not change users, or not this one.
        NothingToDo: It is not being deleted.
        EmailTaken: Somebody else has the address by now.
    """
    try:
        await database().write(units.restore_for_staff, actor_id=actor_id, user_id=user_id)
    except IntegrityError as error:
        raise EmailTaken from error
    get_logger().info("account_restored", user_id=str(user_id), by=str(actor_id))


async def disown(*, found: FoundToken) -> None:
    """End an account that somebody else made under the address of this token.

    Raises:
        InvalidEmailToken: The token was used meanwhile, or somebody has proved the address.
    """
    await database().write(units.disown, found=found)


async def disown_deleted(*, found: FoundToken) -> None:
    """Leave an account that somebody else made under the address of this token to its end.

    Raises:
        InvalidEmailToken: The token was used meanwhile, or somebody has proved the address.
    """
    await database().write(units.disown_deleted, found=found)
