"""Pushed authorization requests (RFC 9126): parameters from the client itself, by the browser only a handle."""

import secrets
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

import msgspec
from django.http import HttpResponse, QueryDict
from drf_spectacular.utils import extend_schema

from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients import authentication as client_authentication
from tokens.clients import dpop
from tokens.clients.errors import (
    InvalidAuthorizationDetails,
    InvalidDpopProof,
    InvalidRequest,
    InvalidRequestObject,
    InvalidScope,
    InvalidTarget,
    RegistrationNotSupported,
    RequestNotSupported,
    RequestUriNotSupported,
    UnauthorizedClient,
    UnsupportedResponseType,
)
from tokens.clients.models import digest_of
from tokens.clients.registry import Client
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize.request import Finished, Unanswerable
from tokens.oauth.endpoint import DETAILS, MAX_BYTES, RESOURCE, SEVERAL, OAuthEndpoint, refusals, unique_parameters
from tokens.oauth.inputs import PushInput
from tokens.oauth.models import PushedRequest
from tokens.oauth.signed import request_objects

LIFE_S: Final = 90  # seconds; RFC 9126 §2.2 recommends 5 to 600: the browser comes with it at once
PREFIX: Final = "urn:ietf:params:oauth:request_uri:"  # RFC 9126 §2.2
HANDLE_BYTES: Final = 32  # 256 random bits
#: What proves the client; it is not part of what the client asks for, and must not be stored.
_CREDENTIALS: Final = frozenset({"client_secret", "client_assertion", "client_assertion_type"})


class Pushed(msgspec.Struct, frozen=True):
    """What the browser is to be sent with: ``request_uri``, good until the person has finished.

    ``expires_in``: seconds for which it may be opened.
    """

    request_uri: str
    expires_in: int


class PushedRequestView(OAuthEndpoint):
    """POST /oauth/par."""

    several = SEVERAL

    @extend_schema(
        operation_id="oauth_par",
        summary="Push an authorization request",
        request={"application/x-www-form-urlencoded": PushInput},
        responses={
            201: Pushed,
            **refusals(
                UnauthorizedClient,
                UnsupportedResponseType,
                InvalidScope,
                InvalidTarget,
                InvalidAuthorizationDetails,
                InvalidDpopProof,
                RequestNotSupported,
                InvalidRequestObject,
                RequestUriNotSupported,
                RegistrationNotSupported,
            ),
        },
    )
    async def post(self, request: ApiRequest) -> HttpResponse:
        """Check the parameters as /oauth/authorize does and keep them for 90 seconds.

        A client that signs its requests sends them as `request` (RFC 9101); nothing beside it counts then.
        """
        query, parameters = request.data, await self.parameters(request)
        client = await client_authentication.authenticate(request, parameters, allow_public=True)
        await client_authentication.admit_public(request, client)
        if client.signs_requests:
            query = await request_objects.opened(client, query)
            parameters = unique_parameters(query, SEVERAL)
        jkt = await dpop.key_of_client(request._request, client)  # noqa: SLF001 - Django's request
        if jkt and parameters.setdefault("dpop_jkt", jkt) != jkt:  # the code will be bound to it (RFC 9449 §10.1)
            raise InvalidRequest("dpop_jkt is not the thumbprint of the key of the proof.")
        handle = await push(client=client, query=query, parameters=parameters)
        body = msgspec.json.encode(Pushed(PREFIX + handle, LIFE_S))
        return HttpResponse(body, status=HTTPStatus.CREATED, content_type="application/json")


async def push(*, client: Client, query: QueryDict, parameters: dict[str, str]) -> str:
    """Store the parameters a client has sent, and return the handle to them.

    Args:
        client: The client, which has proved who it is.
        query: The body as it was sent, or what its request object says.
        parameters: The same, without empty values and repetitions.

    Raises:
        InvalidRequest: A ``request_uri`` among them (RFC 9126 §2.1), too long a request, another client's
            ``client_id``, or an address that is not registered.
        OAuthError: What ``authorization_request.check`` raises.
    """
    if not client.stored:
        raise InvalidRequest("Nobody has allowed this application anything yet: send people to /oauth/authorize first.")
    if "request_uri" in parameters:
        raise InvalidRequest("A pushed request cannot refer to another one: leave request_uri out.")
    if len(urlencode(parameters)) > MAX_BYTES:  # as a browser would bring it: the answer repeats its state
        raise InvalidRequest(f"The request is longer than {MAX_BYTES} bytes.")
    if parameters.get("client_id", client.public_id) != client.public_id:
        raise InvalidRequest("client_id is not that of the client which sent this.")
    try:
        target = authorization_request.target_of(client, query)
    except Unanswerable as error:
        raise InvalidRequest(error.detail) from error
    wanted = {name: value for name, value in parameters.items() if name not in _CREDENTIALS}
    checked = authorization_request.check(client, wanted, target, pushed=True)
    if authorization_request.is_aimed(client, wanted):
        asked, detailed = wanted.get(RESOURCE, ""), wanted.get(DETAILS, "")
        checked = await authorization_request.aimed(client, checked, asked=asked, detailed=detailed)
    await authorization_request.with_hint(client, checked, wanted.get("id_token_hint"))
    handle = secrets.token_urlsafe(HANDLE_BYTES)
    await database().write(keep, client=client, handle=handle, parameters=wanted)
    return handle


def keep(*, client: Client, handle: str, parameters: dict[str, str]) -> None:
    """Store the parameters under the handle; a unit of work, 1 query.

    Args:
        client: The client, which has been authenticated.
        handle: Random; its SHA-256 is stored.
        parameters: What was pushed, checked.
    """
    PushedRequest.objects.create(
        digest=digest_of(handle),
        client_id=client.id,
        parameters=parameters,
        expires_at=clock.now() + timedelta(seconds=LIFE_S),
    )


def find(*, client: Client, digest: str) -> dict[str, str] | None:
    """Return the parameters the client has pushed under the handle; a unit of work, 1 query.

    None for an unknown, expired or finished one, and for one of another client. It may be opened again until the person
    has finished (``services``): browsers open an address twice, and people press reload (FAPI 2.0 §5.3.2.2).

    Args:
        client: The client that the request names.
        digest: Of the handle.
    """
    alive = PushedRequest.objects.filter(digest=digest, client_id=client.id, expires_at__gt=clock.now())
    found: dict[str, str] | None = alive.values_list("parameters", flat=True).first()
    return found


async def opened(*, client: Client, request_uri: str) -> tuple[str, QueryDict]:
    """Return the digest of the handle and what the client has pushed; as a query, because it is checked once more.

    Args:
        client: The client that the request names.
        request_uri: The parameter as it was received.

    Raises:
        Finished: without the parameters nobody knows where to answer.
    """
    digest = digest_of(request_uri.removeprefix(PREFIX))
    parameters = await database().read(find, client=client, digest=digest)
    if parameters is None:
        raise Finished
    query = QueryDict(mutable=True)
    query.update(parameters)
    if RESOURCE in parameters:  # each by itself, as it was sent
        query.setlist(RESOURCE, parameters[RESOURCE].split())
    return digest, query
