"""What the API says about tokens and sessions; the field order is the contract's."""

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec


class TokenPair(msgspec.Struct, frozen=True):
    """An access token and the refresh token that renews it; lifetimes in seconds."""

    access_token: str
    token_type: Literal["Bearer", "DPoP"]
    expires_in: int
    refresh_token: str
    refresh_expires_in: int
    session_id: UUID


class ListedSession(NamedTuple):
    """What a list has to know of a session; its columns, as they were read."""

    id: UUID
    created_at: datetime
    last_used_at: datetime
    idle_expires_at: datetime
    ip: str | None
    user_agent: str
    client_id: str
    actor_id: UUID | None
    parent_id: UUID | None
    goes_on_from: UUID | None


class SessionOut(msgspec.Struct, frozen=True):
    """One signed-in device; ``expires_at``: when it ends unless it is used again.

    ``application``: the name of the application that was signed in to through this server, "Single sign-on" for the
    session that answers for all of these, null for one opened here. ``actor``: the member of staff who opened it to
    see what the person sees, by name, by id where they have none; null for the person's own. ``began_in``: the session
    of the same list, and the same browser, that it began in or goes on from; null for one of its own.
    """

    id: UUID
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
    ip: str | None
    user_agent: str
    current: bool
    application: str | None
    actor: str | None = None
    began_in: UUID | None = None


def session_out(
    session: ListedSession,
    *,
    current_id: UUID | None,
    application: str | None,
    actor: str | None = None,
    began_in: UUID | None = None,
) -> SessionOut:
    """Return what the API says about a session.

    Args:
        session: The row.
        current_id: The session of the one who asks.
        application: What its client is called; None for one opened here.
        actor: What the member of staff is called who opened it; None for the person's own.
        began_in: The session that it began in or goes on from, where that is listed, too.
    """
    return SessionOut(
        id=session.id,
        created_at=session.created_at,
        last_used_at=session.last_used_at,
        expires_at=session.idle_expires_at,
        ip=session.ip,
        user_agent=session.user_agent,
        current=session.id == current_id,
        application=application,
        actor=actor,
        began_in=began_in,
    )
