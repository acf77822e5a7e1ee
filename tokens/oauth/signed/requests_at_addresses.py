"""Request objects that the client keeps at an address (OpenID Connect Core §6.2), while IRONAUTH_REQUEST_URIS is set.

Only from addresses that the client has registered, character by character, and by the outbound rules of everything
that is fetched for clients. One that is fetched is not kept: what it says may be another thing at the next request.
"""

from typing import Final

from django.conf import settings
from django.http import QueryDict

from accounts.lockout import rate_limits
from ironauth.infrastructure.http import client_context
from tokens.clients.errors import InvalidRequest, InvalidRequestUri, RequestUriNotSupported
from tokens.clients.fetched import fetching
from tokens.clients.fetched.errors import FetchRefused
from tokens.clients.registry import Client
from tokens.oauth.endpoint import MAX_BYTES
from tokens.oauth.signed import request_objects

_ACCEPT: Final = "application/oauth-authz-req+jwt, application/jwt"


async def opened(client: Client, query: QueryDict) -> QueryDict:
    """Return what a client asks for: what the object at its address says, and nothing beside it (RFC 9101 §6.3).

    Args:
        client: The client that the parameter ``client_id`` names.
        query: The parameters as they were sent, with ``request_uri``.

    Raises:
        InvalidRequest: There is more than one object.
        InvalidRequestObject: The object is not good, not the client's or not for now.
        InvalidRequestUri: The address is not registered, or has nothing that can be used.
        RequestUriNotSupported: Nothing is fetched here, or the client has to push its requests.
        Throttled: (429) Too many were fetched for the network that the request comes from.
    """
    uris = query.getlist("request_uri")
    if len(uris) != 1 or "request" in query:
        raise InvalidRequest("Send one request_uri, and no request beside it.")
    if not settings.IRONAUTH_REQUEST_URIS or client.require_par:
        raise RequestUriNotSupported
    if uris[0] not in client.request_uris:
        raise InvalidRequestUri("The client has not registered this request_uri: see request_uris of its registration.")
    await rate_limits.admit(rate_limits.REQUEST_URI, address=client_context.current().address)
    try:
        answer = await fetching.fetch(uris[0], accept=_ACCEPT, longest=MAX_BYTES, known=not client.unverified)
        text = answer.body.decode("ascii").strip()
    except (FetchRefused, UnicodeDecodeError) as error:
        raise InvalidRequestUri from error
    asked = await request_objects.read(text, client, by_address=True)
    if "client_id" not in asked:
        asked["client_id"] = client.public_id
    return asked
