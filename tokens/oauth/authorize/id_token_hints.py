"""Who a client believes is there: ``id_token_hint`` (OpenID Connect Core §3.1.2.1)."""

import msgspec

from tokens.clients.errors import InvalidRequest
from tokens.clients.registry import Client
from tokens.oauth import id_tokens
from tokens.oauth.authorize.request import AuthorizationRequest


async def with_hint(client: Client, request: AuthorizationRequest, token: str | None) -> AuthorizationRequest:
    """Return the request, of the person an ID token names if there is one; it may have expired.

    Raises:
        InvalidRequest: a token this server did not make for this client.
    """
    if token is None:
        return request
    hint = await id_tokens.read_hint(token)
    if hint is None or hint.client_id != client.client_id:
        raise InvalidRequest("id_token_hint is no ID token that this server has given to this client.")
    return msgspec.structs.replace(request, hint_sub=hint.sub)
