"""Answers to clients as JWTs that this server signs: authorization responses (JARM) and introspection (RFC 9701).

Each is for one client, its ``aud``, and is signed by the algorithm that the client's setting says.
"""

from typing import Any, Final

import msgspec
from django.conf import settings

from ironauth.infrastructure.core import clock
from tokens.access import signed_tokens
from tokens.clients.registry import Client
from tokens.keys.key_set import ActiveKey, Family
from tokens.keys.store import key_store

#: Seconds an authorization response is good for (JARM §2.1 recommends 10 minutes at most): it is looked at once.
LIFE_S: Final = 600
#: JARM names no ``typ``, and Nimbus takes none but JWT. That is the one of ID tokens, whose hints have to have it. A
#: client's assertion or request object without a ``typ`` counts as JWT: what keeps these apart is ``iss``, the server.
RESPONSE_TYPE: Final = ""
INTROSPECTION_TYPE: Final = "token-introspection+jwt"
INTROSPECTION_MEDIA: Final = f"application/{INTROSPECTION_TYPE}"


async def authorization_response(client: Client, parameters: dict[str, str]) -> str:
    """Return what a client is told at the authorization endpoint, as a JWT (JARM §2.1).

    Args:
        client: The client that hears it.
        parameters: What it is told, with its ``state``.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
    """
    issued = {"iss": settings.IRONAUTH_ISSUER, "aud": client.public_id, "exp": int(clock.unix()) + LIFE_S}
    return signed_tokens.sign({**parameters, **issued}, await _key(client), typ=RESPONSE_TYPE)


async def introspection(caller: Client, answer: bytes) -> str:
    """Return an answer of introspection as a JWT (RFC 9701 §5); ``sub`` and ``exp`` stand inside alone.

    Args:
        caller: The client that has asked.
        answer: The plain answer, as JSON.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
    """
    claims: dict[str, Any] = {
        "iss": settings.IRONAUTH_ISSUER,
        "aud": caller.public_id,
        "iat": int(clock.unix()),
        "token_introspection": msgspec.Raw(answer),
    }
    return signed_tokens.sign(claims, await _key(caller), typ=INTROSPECTION_TYPE)


def is_asked(accept: str) -> bool:
    """Return whether an Accept header names the media type of signed introspection, and does not rule it out.

    A range such as ``*/*`` does not name it: who asks for nothing gets the plain answer.

    Args:
        accept: The header as it was received.
    """
    for entry in accept.lower().split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        if media == INTROSPECTION_MEDIA:
            weights = [part[2:] for part in parameters if part.startswith("q=")]
            return not any(set(weight) <= {"0", "."} for weight in weights)
    return False


async def _key(client: Client) -> ActiveKey:
    return await key_store().signing(Family(client.authorization_signed_response_alg))
