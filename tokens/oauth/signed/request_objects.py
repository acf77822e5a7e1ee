"""Request objects (RFC 9101, JAR): an authorization request that its client has signed, so that nobody can deny it.

FAPI 2.0 Message Signing §5.3.1. A client's setting says by which algorithm it signs; its profile may demand that it
does. Outside the object nothing counts but ``client_id``, which has to be the same inside (RFC 9101 §6.3).

``jti`` is not looked at. A pushed request is sent by a client that has proved who it is, and its handle is good for one
answer; an object in an address may be opened again, like the address itself, until it expires.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from django.conf import settings
from django.http import QueryDict

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access import codec
from tokens.access.codec import CLOCK_LEEWAY_S
from tokens.clients import assertion
from tokens.clients.errors import InvalidRequest, InvalidRequestObject, RequestNotSupported
from tokens.clients.fetched import keys as fetched_keys
from tokens.clients.keys import NAMES
from tokens.clients.models import OAuthClient
from tokens.clients.registry import Client
from tokens.errors import InvalidToken
from tokens.oauth.endpoint import MAX_BYTES

#: What a request object may call itself (RFC 9101 §10.8); anything else is another token.
TYPES: Final = frozenset({"jwt", "oauth-authz-req+jwt"})
#: Seconds from ``nbf`` to ``exp``, and that ``nbf`` may be past (FAPI 2.0 Message Signing §5.3.1).
MAX_LIFE_S: Final = 3_600
#: Claims of the JWT itself, which are no parameters.
_OF_THE_JWT: Final = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})
#: What must not be inside: an object in the object (RFC 9101 §4).
_NESTED: Final = frozenset({"request", "request_uri"})
MAX_INTEGER: Final = 2**53  # what every reader of JSON has (RFC 8259 §6)
#: By cause, what is wrong, for the client's developer.
_WORDS: Final[Mapping[str, str]] = {
    "text": "The request object is no signed JWT, or longer than 8,000 bytes.",
    "header": "The header of the request object is no JSON object, or names a member twice.",
    "payload": "The payload of the request object is no JSON object, or names a member twice.",
    "typ": "The request object is another kind of token: write typ oauth-authz-req+jwt.",
    "alg": "The request object is not signed by the algorithm that is registered for this client.",
    "signed": "The request object is signed, which this client has not registered: write alg none and no signature.",
    "key": "None of the keys that are registered for this client has signed the request object.",
    "claims": "iss, client_id, aud or exp is missing in the request object, or a claim is of the wrong type.",
    "client": "iss and client_id of the request object are not the client that sends it.",
    "subject": "The request object names the client as sub, as an assertion does: leave sub out.",
    "audience": "The request object is not for this server: aud has to be its issuer.",
    "expiry": "The request object has expired, or lives longer than 3,600 seconds.",
    "nbf": "nbf of the request object is missing, in the future, or more than 3,600 seconds ago.",
    "iat": "iat of the request object is in the future.",
    "nested": "A request object has neither request nor request_uri in it.",
    "member": "A member of the request object is no text, whole number, object, or list of texts or of objects.",
}
log = get_logger()


class _Claims(msgspec.Struct, frozen=True):
    """What a request object says beside its parameters (RFC 9101 §4); times in unix seconds."""

    iss: str | None = None
    client_id: str | None = None
    aud: str | list[str] | None = None
    exp: float | None = None
    nbf: float | None = None
    iat: float | None = None
    sub: str | None = None


async def opened(client: Client, query: QueryDict) -> QueryDict:
    """Return what a client asks for that signs its requests: what its request object says, and nothing beside it.

    Args:
        client: The client that the parameter ``client_id`` names, or that has proved who it is.
        query: The parameters as they were sent.

    Raises:
        InvalidRequest: It has to sign its requests and has not; or something is there twice.
        InvalidRequestObject: The object is not good, not the client's or not for now.
        RequestNotSupported: It signs nothing here.
    """
    objects = query.getlist("request")
    if not objects:
        if client.rules.signed_requests:
            raise InvalidRequest("This client has to sign its requests (RFC 9101): send them as request.")
        return query
    if client.request_object_signing_alg in ("", OAuthClient.RequestAlg.UNSIGNED):  # unsigned: by address alone
        raise RequestNotSupported
    if len(objects) > 1 or "request_uri" in query:
        raise InvalidRequest("Send one request, and no request_uri beside it.")
    return await read(objects[0], client)


async def read(text: str, client: Client, *, by_address: bool = False) -> QueryDict:
    """Return the parameters of a request object that is genuine and in force.

    Args:
        text: The JWT as it was received.
        client: The client that sends it.
        by_address: Whether it was fetched from an address that the client has registered here.

    Raises:
        InvalidRequestObject: It is not good, not the client's or not for now.
    """
    jwks = await fetched_keys.of(client, text)
    try:
        return parameters_of(text, client, jwks, by_address=by_address)
    except InvalidToken as refused:
        log.info("request_object_refused", client_id=client.client_id, cause=refused.reason)
        raise InvalidRequestObject(_WORDS[refused.reason]) from refused


def parameters_of(text: str, client: Client, jwks: Mapping[str, Any], *, by_address: bool = False) -> QueryDict:
    """Return the parameters of a request object that is genuine and in force.

    One from a registered address is this server's by that: of the claims beside its parameters none has to be there
    (OpenID Connect Core §6.1), and each that is there is judged.

    Args:
        text: The JWT as it was received.
        client: The client that sends it.
        jwks: The client's public keys.
        by_address: Whether it was fetched from an address that the client has registered here.

    Raises:
        InvalidToken: The first check that fails gives the reason, one of those in ``_WORDS``.
    """
    payload = _payload(text, client, jwks)
    try:
        claims = msgspec.convert(payload, _Claims)
    except msgspec.ValidationError as error:
        raise InvalidToken("claims") from error
    if not by_address and None in (claims.iss, claims.client_id, claims.aud, claims.exp):
        raise InvalidToken("claims")
    _require_in_force(claims, client=client, now=clock.unix())
    if _NESTED & payload.keys():
        raise InvalidToken("nested")
    found = QueryDict(mutable=True)
    for name, value in payload.items():
        if name not in _OF_THE_JWT:
            found.setlist(name, _texts(value))
    return found


def _payload(text: str, client: Client, jwks: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an object says that is signed as its client has registered, which may be not at all."""
    alg = client.request_object_signing_alg
    if alg == OAuthClient.RequestAlg.UNSIGNED:
        return _unsigned(text)
    header = assertion.read_header(text, types=TYPES, longest=MAX_BYTES)
    if header["alg"] not in NAMES.get(alg, {alg}) or header["alg"] not in client.rules.signing:
        raise InvalidToken("alg")
    if not assertion.is_signed_by(jwks, header, text):
        raise InvalidToken("key")
    return codec.payload_of(text, longest=MAX_BYTES)


def _unsigned(text: str) -> dict[str, Any]:
    """Return what an unsigned object says (RFC 7519 §6): two parts, and a dot where the signature would be."""
    parts = text.split(".")
    if len(text) > MAX_BYTES or len(parts) != len(("header", "payload", "")):
        raise InvalidToken("text")
    header = codec.json_object(parts[0], "header")
    if parts[2] or header.get("alg") != "none":
        raise InvalidToken("signed")
    typ = header.get("typ", "JWT")
    if not isinstance(typ, str) or typ.lower().removeprefix("application/") not in TYPES:
        raise InvalidToken("typ")
    return codec.json_object(parts[1], "payload")


def _require_in_force(claims: _Claims, *, client: Client, now: float) -> None:
    """Raise ``InvalidToken`` unless the client has made the object for this server, and for now."""
    ahead, issuer = now + CLOCK_LEEWAY_S, settings.IRONAUTH_ISSUER
    if not {claims.iss, claims.client_id} <= {client.public_id, None}:
        raise InvalidToken("client")
    if claims.sub == client.public_id:  # else it could be used as the client's assertion (RFC 9101 §10.8)
        raise InvalidToken("subject")
    if claims.aud not in (issuer, None) and not (isinstance(claims.aud, list) and issuer in claims.aud):
        raise InvalidToken("audience")
    begins = claims.nbf
    if (begins is None and client.rules.dated_requests) or (
        begins is not None and not now - MAX_LIFE_S <= begins <= ahead
    ):
        raise InvalidToken("nbf")
    latest = (ahead if begins is None else begins) + MAX_LIFE_S
    if claims.exp is not None and not now < claims.exp <= latest:
        raise InvalidToken("expiry")
    if claims.iat is not None and claims.iat > ahead:
        raise InvalidToken("iat")


def _texts(value: Any) -> list[str]:
    """Return a member as a query would bring it: objects and lists of them as JSON, texts as several values."""
    match value:
        case str():
            return [value]
        case bool():
            pass
        case int() if abs(value) <= MAX_INTEGER:
            return [str(value)]
        case dict():  # the parameter claims (OpenID Connect Core §6.1)
            return [msgspec.json.encode(value).decode()]
        case list() if value and all(isinstance(one, str) for one in value):
            return value
        case list() if value and all(isinstance(one, dict) for one in value):  # authorization_details (RFC 9396 §2)
            return [msgspec.json.encode(value).decode()]
    raise InvalidToken("member")
