"""Tokens as SimpleJWT's clients know them: obtained, refreshed, verified and blacklisted. Async, keyword-only."""

from typing import Final
from uuid import UUID

import msgspec
from django.conf import settings

from ironauth.infrastructure.http.client_context import ClientContext
from tokens.access import codec
from tokens.access.codec import AccessClaims
from tokens.errors import InvalidRefreshToken
from tokens.keys.key_set import ActiveKey
from tokens.keys.store import key_store
from tokens.sessions import authentication, refresh_token
from tokens.sessions import services as sessions
from tokens.sessions.outputs import TokenPair
from tokens.sign_in import services as sign_in

#: What SimpleJWT writes into an access token.
ACCESS: Final = "access"
#: The setting with which a refresh token stays good until its session ends, SimpleJWT's own default.
KEEPS: Final = "keep"


class SimpleJwtClaims(AccessClaims, frozen=True, omit_defaults=True):
    """An access token's claims, and the two that clients of SimpleJWT read beside ``exp`` and ``jti``."""

    token_type: str = ""
    user_id: UUID | None = None


class Pair(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to ``token/`` and ``token/refresh/``; without ``refresh`` where the client keeps the one it has."""

    access: str
    refresh: str = ""


async def obtain(*, email: str, password: str, context: ClientContext) -> Pair:
    """Open a session by password.

    Args:
        email: The address, which SimpleJWT's clients may call the user name.
        password: As it was typed.
        context: Where the sign-in comes from.

    Raises:
        SigningKeyMissing: (503) Before any hashing.
        DomainError: What ``sign_in`` raises.
    """
    pair = await sign_in.sign_in(email=email, password=password, context=context)
    return _pair(pair, await key_store().signing())


async def refresh(*, token: str, address: str) -> Pair:
    """Return the next access token of a session; a new refresh token too, unless the setting keeps it.

    Args:
        token: The refresh token.
        address: The caller's; "": unknown, not counted.

    Raises:
        InvalidRefreshToken: (401) It is not good, or was used before and the setting rotates.
        SigningKeyMissing: (503) Before anything is changed.
        Throttled: (429) Too many bad ones came from the address.
    """
    keeps = settings.IRONAUTH_SIMPLEJWT == KEEPS
    pair = await (sessions.access_for if keeps else sessions.refresh)(token=token, address=address)
    return _pair(pair, await key_store().signing(), with_refresh=not keeps)


async def verify(*, token: str) -> None:
    """Return where an access token or a refresh token would be accepted now.

    Raises:
        InvalidToken: (401) It would not.
        Unavailable: (503) It cannot be told now.
    """
    if refresh_token.parse(token) is None:
        await authentication.by_text(token)
    elif not await sessions.is_usable(token=token):
        raise InvalidRefreshToken


async def blacklist(*, token: str) -> None:
    """End the session of a refresh token.

    Raises:
        InvalidRefreshToken: (401) It is not good, or its session is over.
    """
    if not await sessions.is_usable(token=token):
        raise InvalidRefreshToken
    await sessions.sign_out_by_refresh_token(token=token)


def _pair(pair: TokenPair, key: ActiveKey, *, with_refresh: bool = True) -> Pair:
    """Return the pair with the claims of SimpleJWT in its access token, which is signed once more for them."""
    claims = codec.claims_of(pair.access_token)
    wider = SimpleJwtClaims(**msgspec.structs.asdict(claims), token_type=ACCESS, user_id=claims.sub)
    return Pair(codec.encode(wider, key), pair.refresh_token if with_refresh else "")
