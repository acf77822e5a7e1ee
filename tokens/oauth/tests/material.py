"""Clients made for a test."""

import base64
import secrets
from typing import Any, Final

from tokens.clients.models import OAuthClient, OAuthClientSecret, digest_of

REDIRECT_URI = "https://app.example.com/callback"
NO_SECRET = ""
#: A picture of one pixel.
PICTURE: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
#: RFC 8037 appendix A.2.
ED25519_JWK = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}


def make_client(**fields: Any) -> tuple[OAuthClient, str]:
    """Store a client, confidential unless ``fields`` say otherwise, and return it with its secret, "" without one."""
    given = {"name": "Wiki", "redirect_uris": [REDIRECT_URI], **fields}
    client = OAuthClient.objects.create(**given)
    if client.auth_method != OAuthClient.AuthMethod.SECRET:
        return client, NO_SECRET
    secret = secrets.token_urlsafe(32)
    OAuthClientSecret.objects.create(client=client, digest=digest_of(secret), hint=secret[-4:])
    return client, secret


def make_public_client(**fields: Any) -> OAuthClient:
    """Store a client that can keep no secret."""
    return make_client(auth_method=OAuthClient.AuthMethod.NONE, **fields)[0]
