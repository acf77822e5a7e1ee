"""People who have signed in to a client, made for a test without the pages and the code."""

from datetime import datetime
from uuid import UUID

from asgiref.sync import sync_to_async

from accounts.users.services import account_snapshot
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients import registry as clients
from tokens.clients import subjects
from tokens.clients.models import OAuthClient
from tokens.keys.store import key_store
from tokens.sessions import access_tokens, client_sessions
from tokens.sessions.client_sessions import ConsentedAccess


async def access_token(
    row: OAuthClient,
    user_id: UUID,
    scope: str,
    *,
    parent_id: UUID | None = None,
    authenticated_at: datetime | None = None,
    cold: bool = False,
) -> str:
    """Return an access token of a new session of the person for the client; ``cold``: as made by another worker."""
    client = await clients.find(str(row.pk))
    account = await sync_to_async(account_snapshot)(user_id)
    assert client is not None
    assert account is not None
    consented = ConsentedAccess(account, scope, authenticated_at or clock.now(), "pwd", parent_id)
    mark, key = token_cache().mark(), await key_store().signing()
    opened_session = await database().write(
        client_sessions.open_client_session, client=client, consented=consented, context=ClientContext()
    )
    assert opened_session is not None
    issued = access_tokens.of_session(opened_session, key, mark, subject=subjects.subject_id(client, user_id))
    if cold:
        token_cache().clear()
    return issued.text
