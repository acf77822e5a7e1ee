"""Access tokens that clients have for themselves: no session ends them, so revoked ones are remembered by their id.

They are remembered until they would have expired (``infrastructure.db.single_use``). Here only introspection accepts
these tokens.
"""

from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec

from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec
from tokens.access.codec import AccessClaims, VerifiedToken
from tokens.clients import registry as clients
from tokens.clients.models import client_tag
from tokens.keys.key_set import kid_tag
from tokens.resources import identifiers
from tokens.resources import queries as resource_queries
from tokens.resources.models import resource_tag

CACHE_PREFIX: Final = "ct:"
#: What `once` knows revoked tokens by.
ONCE: Final = "client token"


class _Standing(msgspec.Struct, frozen=True):
    """Whether a token is neither revoked nor its client disabled."""

    is_active: bool


async def is_active(verified: VerifiedToken) -> bool:
    """Tell whether a verified token of a client is still good, and each API that it is for registered and active.

    One query, two more for a client not seen before, one more for a registered API.

    None for a token this process has been asked about.

    Raises:
        Unavailable: (503) that cannot be asked.
    """
    claims = verified.claims
    audience = identifiers.listed(claims.aud)
    tags = (
        _tag(claims.jti), client_tag(claims.client_id), kid_tag(verified.kid), *map(resource_tag, audience),
    )  # fmt: skip

    async def load() -> Loaded[_Standing]:
        good = await clients.find(claims.client_id) is not None and not await database().read(
            single_use.is_used, ONCE, _id(claims.jti)
        )
        if good and not codec.is_own(claims.aud):
            good = await database().read(resource_queries.all_active, audience)
        return Loaded(_Standing(good), tags, float(claims.exp))

    return (await token_cache().fetch(CACHE_PREFIX + claims.jti, load, _Standing, tags=tags)).is_active


def revoke(*, claims: AccessClaims) -> bool:
    """Refuse the token from now on; return whether it was not before. A unit of work, 2 queries, 1 when it was."""
    revoked = single_use.consume(ONCE, _id(claims.jti), claims.exp)
    if revoked:
        invalidate(_tag(claims.jti))
    return revoked


def _id(jti: str) -> UUID:
    return UUID(bytes=sha256(jti.encode()).digest()[:16])


def _tag(jti: str) -> str:
    return f"jti:{jti}"
