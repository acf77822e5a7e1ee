"""Logout tokens (OpenID Connect Back-Channel Logout 1.0 §2.4): what tells a client whose session has ended."""

import secrets
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import msgspec
from django.conf import settings

from ironauth.infrastructure.core import clock
from tokens.access import signed_tokens
from tokens.clients import subjects
from tokens.clients.registry import Client
from tokens.keys.key_set import Family
from tokens.keys.store import key_store

TYP: Final = "logout+jwt"
LIFE_S: Final = 120  # seconds; two minutes at most, says the specification: it is delivered as soon as it is made
JTI_BYTES: Final = 16  # 128 random bits
EVENTS: Final[Mapping[str, Mapping[str, str]]] = {"http://schemas.openid.net/event/backchannel-logout": {}}


class LogoutClaims(msgspec.Struct, frozen=True):
    """The claims of one logout token; times in unix seconds. Never a nonce, so that it passes for no ID token."""

    iss: str
    sub: str
    aud: str
    iat: int
    exp: int
    jti: str
    sid: str
    events: Mapping[str, Mapping[str, str]]


async def mint(*, client: Client, user_id: UUID, session_id: UUID) -> str:
    """Return a logout token that says that this person's SSO session has ended.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
    """
    key = await key_store().signing(Family(client.id_token_alg))
    now = int(clock.unix())
    claims = LogoutClaims(
        iss=settings.IRONAUTH_ISSUER,
        sub=subjects.subject_of(client, user_id),
        aud=client.client_id,
        iat=now,
        exp=now + LIFE_S,
        jti=secrets.token_urlsafe(JTI_BYTES),
        sid=subjects.sid_of(client, session_id),
        events=EVENTS,
    )
    return signed_tokens.sign(claims, key, typ=TYP)
