"""Which client is calling: it shows a secret (HTTP Basic or body), a signed assertion or a certificate.

A public client names itself.

RFC 6749 §2.3, RFC 7521 §4.2. Secrets are 256 random bits, so comparing digests is enough. The throttle only ends a
broken client's loop.
"""

import base64
import binascii
import hmac
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

from accounts.lockout import rate_limits
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients import assertion as client_assertion
from tokens.clients import registry as clients
from tokens.clients.certificates import presented as certificate
from tokens.clients.errors import InvalidClient, InvalidRequest
from tokens.clients.fetched import keys as fetched_keys
from tokens.clients.models import CERTIFICATES, OAuthClient, digest_of
from tokens.clients.registry import Client, ClientSecret

_BASIC: Final = "basic "
#: What an unknown client's secret is compared with; no digest of anything.
_NOBODYS: Final = (ClientSecret("-" * 64, None),)

log = get_logger()


class Presented(NamedTuple):
    """What a request says about its client. ``secret``, ``assertion``: None for none; ``basic``: by the header."""

    client_id: str
    secret: str | None = None
    assertion: str | None = None
    basic: bool = False


async def authenticate(request: ApiRequest, parameters: dict[str, str], *, allow_public: bool) -> Client:
    """Return the enabled client that sent the request.

    No query when it is known; one for an assertion, which is used up. What would be refused is held against the
    database once more (2 queries): a secret made a moment ago works at once, in whichever worker.

    Args:
        request: The request, for its Authorization header and address.
        parameters: Those of its body.
        allow_public: Whether a client that can keep no secret may call.

    Raises:
        InvalidRequest: (400) two ways to authenticate at once.
        InvalidClient: (401) no client, one that is unknown or disabled, one with the wrong proof, or a public one.
        Throttled: (429) instead of the 401, when too many came from the address. Right credentials are never counted.
    """
    presented = _presented(request, parameters)
    client, cause = None, "unknown"
    for look in (clients.find_named, clients.find_anew):
        client = await look(presented.client_id)
        cause = await _cause_to_refuse(client, presented, request, allow_public=allow_public)
        if client is not None and not cause:
            return client
    await rate_limits.admit(rate_limits.CLIENT, address=client_context.address_of(request))
    log.info("client_refused", client_id=client.client_id if client else None, cause=cause)
    raise InvalidClient(basic=presented.basic)


async def admit_public(request: ApiRequest, client: Client) -> None:
    """Count a request of a public client that stores something, by its address: anybody can claim to be such a client.

    Requests of a confidential client, which has proved who it is, are not counted. 1 query, with Redis none.

    Args:
        request: The request; the count is of its client address.
        client: The client that it claims to come from.

    Raises:
        Throttled: (429) too many tries.
    """
    if client.is_public:
        await rate_limits.admit(rate_limits.PUBLIC_CLIENT, address=client_context.address_of(request))


def basic_credentials(header: str) -> tuple[str, str] | None:
    """Return id and secret of a Basic ``Authorization`` header; None when it is malformed or of another scheme.

    Both are form-encoded before they are joined and encoded in base64 (RFC 6749 §2.3.1).
    """
    if header[: len(_BASIC)].lower() != _BASIC:
        return None
    try:
        joined = base64.b64decode(header[len(_BASIC) :].strip(), validate=True).decode("ascii")
        name, colon, secret = joined.partition(":")
        return (unquote_plus(name, errors="strict"), unquote_plus(secret, errors="strict")) if colon else None
    except (binascii.Error, ValueError):
        return None


def _presented(request: ApiRequest, parameters: dict[str, str]) -> Presented:
    """Return what the request says about its client.

    Raises ``InvalidRequest`` for two ways at once, ``InvalidClient`` for a header that cannot be read.
    """
    header = request.META.get("HTTP_AUTHORIZATION", "")
    named, secret = parameters.get("client_id", ""), parameters.get("client_secret")
    assertion, kind = parameters.get("client_assertion"), parameters.get("client_assertion_type")
    if (assertion is None) != (kind is None):
        raise InvalidRequest("Send client_assertion and client_assertion_type together.")
    if bool(header) + (secret is not None) + (assertion is not None) > 1:
        raise InvalidRequest("Authenticate in one way: by the Authorization header, a secret, or an assertion.")
    if assertion is not None:
        return _asserted(assertion, kind, named)
    if not header:
        return Presented(named, secret)
    credentials = basic_credentials(header)
    if credentials is None:
        log.info("client_refused", client_id=None, cause="header")
        raise InvalidClient("The Authorization header is not HTTP Basic (RFC 7617).", basic=True)
    if named and named != credentials[0]:
        raise InvalidRequest("The client_id of the body is not the one of the Authorization header.")
    return Presented(*credentials, basic=True)


def _asserted(assertion: str, kind: str | None, named: str) -> Presented:
    """Return what an assertion says; the body may also name the same client (RFC 7521 §4.2)."""
    client_id = client_assertion.named_client(assertion)
    if kind != client_assertion.TYPE or (named and named != client_id):
        log.info(
            "client_refused", client_id=None, cause="assertion_type" if kind != client_assertion.TYPE else "client"
        )
        raise InvalidClient
    return Presented(client_id, assertion=assertion)


async def _cause_to_refuse(
    client: Client | None, presented: Presented, request: ApiRequest, *, allow_public: bool
) -> str:
    """Return why the client did not prove its identity, in one word for the log, "" when it is.

    With a secret an unknown client takes as long as a known one. What a client sends that is not its own way to
    authenticate proves nothing; a public one needs to prove nothing.
    """
    if presented.assertion is not None:
        return await _cause_of_assertion(client, presented.client_id, presented.assertion)
    if presented.secret is None:
        if client is None:
            return "unknown"
        if client.auth_method in CERTIFICATES:
            return certificate.cause_to_refuse(client, request._request)  # noqa: SLF001 - Django's request
        return "" if client.is_public and allow_public else "no_credentials"
    right = right_secret(client, presented.secret)
    if client is None:
        return "unknown"
    return "" if right is not None else "secret"


def right_secret(client: Client | None, secret: str) -> ClientSecret | None:
    """Return which of its secrets the client has shown; None for a wrong one, and where secrets prove nothing.

    Args:
        client: The client, None for an unknown one, which takes as long as a known one.
        secret: As it was received.
    """
    secrets = client.secrets if client is not None and client.secrets else _NOBODYS
    digest, now = digest_of(secret), clock.unix()
    right = [
        known
        for known in secrets
        if hmac.compare_digest(digest, known.digest) and (known.expires_at is None or now < known.expires_at)
    ]
    if client is None or client.auth_method != OAuthClient.AuthMethod.SECRET:
        return None
    return right[0] if right else None


def shown_secret(header: str, parameters: dict[str, str]) -> tuple[str, str] | None:
    """Return the client and the secret of a request that was admitted by a secret; None where it was by another way.

    Args:
        header: Its Authorization header, "" for none.
        parameters: Those of its body.
    """
    if header:
        return basic_credentials(header)
    secret = parameters.get("client_secret")
    return None if secret is None else (parameters.get("client_id", ""), secret)


async def _cause_of_assertion(client: Client | None, named: str, assertion: str) -> str:
    """Return why the assertion proves nothing; "" when one of the client's keys has signed it, and use it up.

    ``named``: the client it names, "" where that cannot be read.
    """
    if client is None:
        return "unknown" if named else "payload"
    if client.auth_method != OAuthClient.AuthMethod.PRIVATE_KEY_JWT:
        return "method"
    jwks = await fetched_keys.of(client, assertion) if client.jwks_uri else client.jwks
    if jwks is None:
        return "method"
    try:
        found = client_assertion.verified(assertion, client_id=client.public_id, jwks=jwks, profile=client.rules)
    except client_assertion.AssertionRefused as refused:
        return refused.cause
    first = await database().write(single_use.consume, client_assertion.ONCE, found.id, found.expires_at)
    return "" if first else "used"
