"""Access tokens that clients show to the provider itself, whichever audience they are for.

What is remembered of a token for another API is kept apart: under its key no reader of this server's own API looks.
"""

import hmac
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from accounts.users.invariants import sub_tag
from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec, resource_tokens
from tokens.access.codec import AccessClaims, VerifiedToken
from tokens.errors import InvalidToken
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.resources import identifiers
from tokens.resources import queries as resource_queries
from tokens.resources.models import resource_tag
from tokens.sessions import authentication
from tokens.sessions.models import sid_tag

CACHE_PREFIX: Final = "rt:"


async def decoded(token: str) -> VerifiedToken:
    """Return what an access token of any audience says, whether or not its session lives.

    Raises:
        InvalidToken: (401) it is not ours.
    """
    return await authentication.decoded(token, resource_tokens.decode)


async def principal_of(token: str, verified: VerifiedToken) -> Principal:
    """Return who a verified token stands for, and confirm its session; also where staff act as the person.

    Args:
        token: The text.
        verified: What it says.

    Raises:
        InvalidToken: (401) its session is over, or its API is not registered any more.
        Unavailable: (503) that cannot be asked.
    """
    claims = verified.claims
    if codec.is_own(claims.aud):
        return await authentication.verify(token, verified, of_staff_too=True)
    if claims.sid is None or claims.staff is not None:
        raise InvalidToken("session")
    digest = authentication.digest_of(token)

    async def load() -> Loaded[Principal]:
        await require_active(claims)
        loaded = await authentication.confirmed(verified, digest)
        return replace(loaded, tags=(*loaded.tags, *tags_of(claims)))

    tags = (sid_tag(claims.sid), sub_tag(await authentication.user_of(claims)), *tags_of(claims))
    principal = await token_cache().fetch(CACHE_PREFIX + claims.jti, load, Principal, tags=tags)
    if not hmac.compare_digest(principal.digest, digest):
        principal = (await load()).value  # another genuine token of the same jti
    if (await key_store().for_verifying()).verifier(verified.kid, clock.unix()) is None:
        raise InvalidToken("kid")
    return principal


async def require_active(claims: AccessClaims) -> None:
    """Raise ``InvalidToken`` unless every API that the token is for is registered and active. 1 query."""
    if not await database().read(resource_queries.all_active, identifiers.listed(claims.aud)):
        raise InvalidToken("aud")


def tags_of(claims: AccessClaims) -> Iterable[str]:
    """Return the invalidation tags of the APIs that the token is for."""
    return map(resource_tag, identifiers.listed(claims.aud))
