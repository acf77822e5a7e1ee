"""Who is calling: client secrets by HTTP Basic or in the body, and public clients by their name alone.

RFC 6749 §2.3. Secrets are 256 random bits, so that comparing digests is enough; what throttles is there for is a broken
client's loop.
"""

import base64
import binascii
import hmac
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

from accounts import rate_limits
from ironauth.infrastructure import clock, origin
from ironauth.infrastructure.logs import get_logger
from ironauth.infrastructure.views import ApiRequest
from tokens.oauth import clients
from tokens.oauth.clients import Client, ClientSecret
from tokens.oauth.codes import digest_of
from tokens.oauth.errors import InvalidClient, InvalidRequest
from tokens.oauth.models import OAuthClient

_BASIC: Final = "basic "
#: What an unknown client's secret is compared with; no digest of anything.
_NOBODYS: Final = (ClientSecret("-" * 64, None),)

log = get_logger()


class Presented(NamedTuple):
    """What a request says about its client. ``secret``: None for none, ``basic``: whether the header said it."""

    client_id: str
    secret: str | None
    basic: bool


async def authenticate(request: ApiRequest, parameters: dict[str, str], *, allow_public: bool) -> Client:
    """Return the enabled client that sent the request; ``parameters``: those of its body. No query when it is known.

    Raises ``InvalidRequest`` (400) for two ways to authenticate at once, ``InvalidClient`` (401) for no client, one
    that is unknown or disabled, one with the wrong proof, a public one unless ``allow_public``; ``Throttled`` (429)
    instead of the 401 when too many came from the caller's address. Right credentials are never counted.
    """
    presented = _presented(request, parameters)
    client = await clients.find(presented.client_id)
    if _is_proved(client, presented) and client is not None and (allow_public or not client.is_public):
        return client
    await rate_limits.admit(rate_limits.CLIENT, address=origin.address_of(request))
    log.info("client_refused", client_id=client.client_id if client else None)
    raise InvalidClient(basic=presented.basic)


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
    if not header:
        return Presented(named, secret, basic=False)
    if secret is not None:
        raise InvalidRequest("Authenticate in one way: in the Authorization header or in the body, not in both.")
    credentials = basic_credentials(header)
    if credentials is None:
        raise InvalidClient("The Authorization header is not HTTP Basic (RFC 7617).", basic=True)
    if named and named != credentials[0]:
        raise InvalidRequest("The client_id of the body is not the one of the Authorization header.")
    return Presented(*credentials, basic=True)


def _is_proved(client: Client | None, presented: Presented) -> bool:
    """Return whether the client is who it says; an unknown one takes as long as a known one.

    A secret sent for a client that has none proves nothing, and a public client needs to prove nothing.
    """
    if presented.secret is None:
        return client is not None and client.is_public
    secrets = client.secrets if client is not None and client.secrets else _NOBODYS
    digest, now = digest_of(presented.secret), clock.unix()
    right = [
        hmac.compare_digest(digest, known.digest) and (known.expires_at is None or now < known.expires_at)
        for known in secrets
    ]
    return any(right) and client is not None and client.auth_method == OAuthClient.AuthMethod.SECRET
