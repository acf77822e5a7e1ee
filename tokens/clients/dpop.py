"""Proofs of possession (RFC 9449): a client shows with each request that it has the key its tokens are bound to.

A proof is good for one method and address, for a minute, and once, in whichever worker
(``infrastructure.db.single_use``). There are no server nonces. They would not replace the record of used proofs, and
would cost every client a request. They exist against proofs made in advance, which the minute bounds here.
"""

import base64
from collections.abc import Container
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpRequest

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec
from tokens.clients import assertion as client_assertion
from tokens.clients import keys as client_keys
from tokens.clients import registry as clients
from tokens.clients.errors import InvalidDpopProof, InvalidRequest
from tokens.clients.models import OAuthClient
from tokens.clients.profiles import COMMON_SIGNING
from tokens.clients.registry import Client
from tokens.errors import InvalidProof, InvalidToken
from tokens.protocol import PROOF_ALGORITHMS

HEADER: Final = "HTTP_DPOP"
TYP: Final = "dpop+jwt"
#: Seconds a proof may be old, and a client's clock ahead of this one (RFC 9449 §11.1).
LIFE_S: Final = 60
#: What `once` knows used proofs by.
ONCE: Final = "proof"
_PORTS: Final = {"https": 443, "http": 80}


class _Claims(msgspec.Struct, frozen=True):
    """What a proof says (RFC 9449 §4.2); ``iat`` in unix seconds, with or without a fraction."""

    jti: str
    htm: str
    htu: str
    iat: float
    ath: str | None = None


class Proof(NamedTuple):
    """A proof that is genuine, for this request, and not known to be used.

    Attributes:
        jkt: The thumbprint of its key.
        id: What stands for it once it is used.
        expires_at: When it is too old; unix seconds.
        alg: What has signed it.
    """

    jkt: str
    id: UUID
    expires_at: int
    alg: str


def verified(request: HttpRequest, *, token: str | None = None, signing: Container[str] = PROOF_ALGORITHMS) -> Proof:
    """Return the proof in the request's header, after every check of RFC 9449 §4.3 but whether it was used before.

    Args:
        request: The request it has to be made for.
        token: The access token it has to name; None for none.
        signing: The algorithms that may have signed it.

    Raises:
        InvalidProof: (401) a check has failed.
    """
    text = request.META.get(HEADER, "")
    try:  # of two headers, joined by a comma, none is it
        header = codec.header_of(text)
        claims = msgspec.convert(codec.payload_of(text), _Claims)
    except InvalidToken as error:
        raise InvalidProof(error.reason) from error
    except msgspec.ValidationError as error:
        raise InvalidProof("claims") from error
    jkt = _key_of(header, text, signing)
    _check(claims, request, token)
    digest = sha256(f"{jkt}\0{claims.jti}".encode()).digest()
    return Proof(jkt, UUID(bytes=digest[:16]), int(claims.iat) + LIFE_S + 1, header["alg"])


async def require_agreed(proof: Proof, client_id: str) -> None:
    """Judge what has signed a proof at a resource, where the client is known by its token alone.

    No query, but for an algorithm that some profiles forbid and a client not seen before.

    Args:
        proof: The proof.
        client_id: The client that the token was given to.

    Raises:
        InvalidProof: (401) the client's profile does not let its proofs be signed so (FAPI 2.0 §5.4.1).
    """
    if proof.alg in COMMON_SIGNING:
        return
    client = await clients.find(client_id)
    if client is None or proof.alg not in client.rules.signing:
        raise InvalidProof("alg")


async def consume(proof: Proof) -> None:
    """Take note that the proof was used. 1 query.

    Raises:
        InvalidProof: (401) it was used before, here or in another worker.
        Unavailable: (503) that cannot be asked.
    """
    if not await database().write(single_use.consume, ONCE, proof.id, proof.expires_at):
        raise InvalidProof("jti")


async def give_back(proof: Proof) -> None:
    """Forget that the proof was used: it was for nothing. 1 query."""
    await database().write(single_use.give_back, ONCE, proof.id)


def presented(request: HttpRequest, client: Client, *, required: bool = True) -> Proof | None:
    """Return the proof of the key that tokens given now are bound to, None for none; ``use_for_client`` uses it up.

    Args:
        request: The request that may have a proof.
        client: Its policy decides: ``off`` ignores proofs, ``required`` wants one.
        required: Whether ``required`` is enforced here.

    Raises:
        InvalidRequest: (400) there is no proof, and the client needs one.
        InvalidDpopProof: (400) the proof is not good (RFC 9449 §5).
    """
    if client.dpop == OAuthClient.Policy.OFF:
        return None
    if HEADER not in request.META:
        if required and client.dpop == OAuthClient.Policy.REQUIRED:
            raise InvalidRequest("This client's tokens are bound to a key, and no proof of one was sent (RFC 9449).")
        return None
    try:
        return verified(request, signing=client.rules.signing)
    except InvalidProof as error:
        raise InvalidDpopProof(error.detail) from error


async def use_for_client(proof: Proof | None) -> None:
    """Use up a proof, if there is one. 1 query.

    Raises:
        InvalidDpopProof: (400) it was used before.
    """
    if proof is None:
        return
    try:
        await consume(proof)
    except InvalidProof as error:
        raise InvalidDpopProof(error.detail) from error


async def key_of_client(request: HttpRequest, client: Client) -> str:
    """Return the thumbprint of the key that was proved, "" without a proof; as ``presented``, required of nobody.

    Args:
        request: The request with the proof in its DPoP header.
        client: The client, which has been authenticated.
    """
    proof = presented(request, client, required=False)
    await use_for_client(proof)
    return proof.jkt if proof is not None else ""


def _key_of(header: dict[str, Any], text: str, signing: Container[str]) -> str:
    """Return the thumbprint of the key that is in the header and has signed the proof."""
    alg, jwk = header.get("alg"), header.get("jwk")
    if header.get("typ") != TYP:
        raise InvalidProof("typ")
    if "crit" in header or "b64" in header or alg not in PROOF_ALGORITHMS or alg not in signing:
        raise InvalidProof("alg")
    if not isinstance(jwk, dict) or client_keys.problem_of_key(jwk) is not None:  # private, weak, or no key at all
        raise InvalidProof("jwk")
    if not client_keys.may_have_signed(jwk, alg):
        raise InvalidProof("alg")
    key = client_assertion.public_key(jwk)
    if not client_assertion.has_signed(key, alg, text):
        raise InvalidProof("signature")
    return key.thumbprint()


def _check(claims: _Claims, request: HttpRequest, token: str | None) -> None:
    """Raise ``InvalidProof`` unless the proof was made for this request, this token, and now."""
    if claims.htm != request.method:
        raise InvalidProof("htm")
    # Clients take the addresses from the metadata. Those begin with the issuer, whatever Host a proxy sends.
    said, path = _normal(claims.htu), quote(request.path_info)
    if said != _normal(f"{settings.IRONAUTH_ISSUER}{path}"):
        mtls = settings.IRONAUTH_MTLS_ORIGIN  # ``mtls_endpoint_aliases`` of the metadata (RFC 8705 §5)
        if not mtls or said != _normal(f"{mtls}{path}"):
            raise InvalidProof("htu")
    if abs(clock.unix() - claims.iat) > LIFE_S:
        raise InvalidProof("iat")
    if not claims.jti:
        raise InvalidProof("jti")
    if token is not None and claims.ath != ath_of(token):
        raise InvalidProof("ath")


def ath_of(token: str) -> str:
    """Return what a proof calls an access token (RFC 9449 §4.2)."""
    return base64.urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()


def _normal(uri: str) -> tuple[str, str, int | None, str] | None:
    """Return an address as it is compared: without query and fragment, in one spelling (RFC 3986 §6.2.2, §6.2.3)."""
    try:
        parts = urlsplit(uri)
        port = parts.port or _PORTS.get(parts.scheme)
        path = quote(unquote(parts.path or "/"), safe="/")
    except ValueError:  # half a character, too, which JSON can spell and no address has
        return None
    if not parts.hostname or parts.username is not None or parts.password is not None:
        return None
    return parts.scheme, parts.hostname, port, path
