"""What may be said of the addresses that a client registers beside its redirect URIs."""

from collections.abc import Iterable
from typing import Final

from django.conf import settings

from ironauth.infrastructure.core.errors import FieldError
from tokens.clients.fetched import addresses
from tokens.clients.models import OAuthClient

MOST_REQUEST_URIS: Final = 50  # as of redirect URIs
LINKS: Final = ("policy_uri", "tos_uri")


def has_keys(client: OAuthClient) -> bool:
    """Return whether the keys by which the client proves who it is are at an address.

    Not those of certificates: they are compared while a request is read.

    Args:
        client: The client as it would be.
    """
    return bool(client.jwks_uri) and client.auth_method == OAuthClient.AuthMethod.PRIVATE_KEY_JWT


def problems_of(client: OAuthClient) -> Iterable[FieldError]:
    """Yield what is wrong with a client's addresses of keys, requests, logo and texts.

    Args:
        client: The client as it would be.
    """
    yield from _keys(client)
    yield from _requests(client)
    if client.logo_uri and (problem := addresses.problem_of(client.logo_uri)):
        yield FieldError(field="logo_uri", code="address", message=problem)
    for field in LINKS:
        uri = getattr(client, field)
        if uri and (problem := addresses.problem_of_link(uri)):
            yield FieldError(field=field, code="address", message=problem)


def _keys(client: OAuthClient) -> Iterable[FieldError]:
    field, uri = "jwks_uri", client.jwks_uri
    signs_requests = client.request_object_signing_alg not in ("", OAuthClient.RequestAlg.UNSIGNED)
    if uri and client.jwks is not None:
        words = "Keys are registered by value or by their address, not both: leave out one (RFC 7591 §2)."
        yield FieldError(field=field, code="both", message=words)
    elif uri and not has_keys(client) and not signs_requests:
        words = "An address of keys is for private_key_jwt and signed requests: leave it out."
        yield FieldError(field=field, code="needless", message=words)
    elif uri and (problem := addresses.problem_of(uri)):
        yield FieldError(field=field, code="address", message=problem)


def _requests(client: OAuthClient) -> Iterable[FieldError]:
    field, uris = "request_uris", client.request_uris
    unsigned = client.request_object_signing_alg == OAuthClient.RequestAlg.UNSIGNED
    if unsigned and not uris:
        words = "An unsigned request is taken from an address that is registered alone: add request_uris."
        yield FieldError(field="request_object_signing_alg", code="unsigned", message=words)
    if not uris:
        return
    if not settings.IRONAUTH_REQUEST_URIS:
        words = "Requests are not fetched here: set IRONAUTH_REQUEST_URIS, or leave the addresses out."
        yield FieldError(field=field, code="off", message=words)
    elif not client.request_object_signing_alg:
        words = "Say what signs these requests (request_object_signing_alg), or none."
        yield FieldError(field=field, code="needs_alg", message=words)
    if len(uris) > MOST_REQUEST_URIS or len(set(uris)) != len(uris):
        words = f"At most {MOST_REQUEST_URIS} addresses, each once: correct the list."
        yield FieldError(field=field, code="too_many", message=words)
        return
    for at, uri in enumerate(uris, start=1):
        if problem := addresses.problem_of_request(uri):
            yield FieldError(field=field, code="address", message=f"{uri[:80]!r} (no. {at}): {problem}")
