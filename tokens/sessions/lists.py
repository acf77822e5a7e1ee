"""Which application a session is of, and a person's live sessions as the API lists them. Units of work."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from tokens.clients.models import OAuthClient
from tokens.sessions import units as sessions
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session
from tokens.sessions.outputs import SessionOut, session_out

#: What a sign-on session is called, in which people use this server's own pages and are signed in to applications.
SINGLE_SIGN_ON: Final = "Single sign-on"


def of_user(*, user_id: UUID, current_id: UUID) -> list[SessionOut]:
    """Return the user's live sessions, the most recently used first. 1 query, 2 when some are of OAuth clients.

    ``current_id``: the session of the one who asks.
    """
    found = sessions.live_sessions(user_id=user_id)
    names = applications_of(found)
    return [session_out(one, current_id=current_id, application=names.get(one.client_id)) for one in found]


def applications_of(found: Iterable[Session]) -> dict[str, str]:
    """Return what the applications of these sessions are called, by ``client_id``; those opened here have none.

    1 query, or none where no session is of an OAuth client. A client that was deleted goes by its id.
    """
    of_clients = {session.client_id for session in found} - {FIRST_PARTY_CLIENT, SSO_CLIENT}
    stored = OAuthClient.objects.filter(pk__in=of_clients).values_list("pk", "name") if of_clients else ()
    return {**{one: one for one in of_clients}, **{str(pk): name for pk, name in stored}, SSO_CLIENT: SINGLE_SIGN_ON}
