"""What staff do with other people's sessions."""

from uuid import UUID

from accounts.access.rights import CHANGE_USERS, VIEW_USERS, for_holder, target_of
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.principal import Principal
from tokens.rights import DELETE_SESSIONS
from tokens.sessions import queries as session_queries
from tokens.sessions.ends import queries as ended_sessions
from tokens.sessions.outputs import SessionOut

log = get_logger()


async def list_sessions(*, caller: Principal, user_id: UUID) -> list[SessionOut]:
    """Return a user's live sessions, the most recently used first.

    Args:
        caller: The member of staff.
        user_id: The user whose sessions they are.

    Raises:
        PermissionDenied: (403) the caller has not ``accounts.view_user``.
        NotFound: (404) there is no such user.
    """
    return await database().read(for_holder, caller.id, VIEW_USERS, _list, caller=caller, user_id=user_id)


async def end_sessions(*, caller: Principal, user_id: UUID) -> None:
    """End every session of a user.

    Args:
        caller: The member of staff.
        user_id: The user whose sessions end.

    Raises:
        PermissionDenied: (403) the caller has not ``accounts.change_user``, or the user is a superuser and the caller
            is not.
        NotFound: (404) there is no such user.
    """
    await database().write(_end_all, caller_id=caller.id, user_id=user_id)
    log.info("all_sessions_ended", user_id=str(user_id), by=str(caller.id))


async def end_session(*, caller: Principal, user_id: UUID, session_id: UUID) -> None:
    """End one session of a user.

    Args:
        caller: The member of staff.
        user_id: The user whose session it is.
        session_id: The session.

    Raises:
        PermissionDenied: (403) the caller has not ``tokens.delete_session``, or the user is a superuser and the caller
            is not.
        NotFound: (404) there is no such user, or no such live session of theirs.
    """
    await database().write(_end_one, caller_id=caller.id, user_id=user_id, session_id=session_id)
    log.info("session_ended", user_id=str(user_id), session_id=str(session_id), by=str(caller.id))


def _list(*, caller: Principal, user_id: UUID) -> list[SessionOut]:
    """Return a user's live sessions; a unit of work.

    1 query, 2 where some are of OAuth clients, or to tell an unknown user from one without any.
    """
    found = session_queries.of_user(user_id=user_id, current_id=caller.session_id)
    if not found and not User.objects.filter(pk=user_id).exists():
        raise NotFound("There is no such user.")
    return found


def _end_all(*, caller_id: UUID, user_id: UUID) -> None:
    """Raise the user's session epoch, which ends every session with one row; a unit of work."""
    rights, user = target_of(caller_id, user_id, CHANGE_USERS)
    if user is None:
        raise NotFound("There is no such user.")
    rights.require_above(user)
    user_queries.end_sessions(user_id)
    audit.record(Event.SESSIONS_ENDED, actor_id=caller_id, user_id=user_id)


def _end_one(*, caller_id: UUID, user_id: UUID, session_id: UUID) -> None:
    """Do to one session what the admin's action does; a unit of work."""
    rights, user = target_of(caller_id, user_id, DELETE_SESSIONS)
    if user is None:
        raise NotFound("There is no such user.")
    rights.require_above(user)
    if not ended_sessions.end_one(session_id=session_id, user_id=user_id, actor_id=caller_id):
        raise NotFound("This person has no such live session.")
