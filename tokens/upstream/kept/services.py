"""Access tokens of providers, for what an operator's service does for people there; async, keyword-only."""

import asyncio
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from accounts.federation import kept_tokens
from accounts.federation.errors import UpstreamRefused, UpstreamUnavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.upstream import answers, providers
from tokens.upstream.kept import units
from tokens.upstream.kept.errors import NoUpstreamToken
from tokens.upstream.kept.outputs import UpstreamTokenOut
from tokens.upstream.kept.units import Held

#: Seconds for which an access token is good that is handed out; a new one may be good for less.
EARLY_S: Final = 60
#: While another worker asks the provider: how often, and after how many seconds, is looked whether it has an answer.
LOOKS: Final = 24
PAUSE_S: Final = 0.25
#: Error codes of a token endpoint that say the refresh token is over: RFC 6749 §5.2, and GitHub's own.
_OVER: Final = frozenset({"invalid_grant", "bad_refresh_token"})


async def access_token(*, user_id: UUID, provider: str, actor_id: UUID | None = None) -> UpstreamTokenOut:
    """Return an access token of a person at a provider; where it has ended, the provider is asked for a new one.

    Args:
        user_id: The person.
        provider: The provider's short name.
        actor_id: The machine that gets it; None for a call from the same process.

    Raises:
        PermissionDenied: (403) The caller is no machine, may not do this, or lacks a right that the person has.
        NotFound: (404) No such person, or no provider of this name that is switched on and keeps tokens.
        NoUpstreamToken: (409) None is kept that works: the person signs in with the provider again.
        UpstreamUnavailable: (503) The provider does not answer, or as it should not.
    """
    is_renewed = False
    for _ in range(LOOKS):
        early_s = 0 if is_renewed else EARLY_S
        held = await database().write(units.take, actor_id=actor_id, user_id=user_id, slug=provider, early_s=early_s)
        if held.is_fresh:
            tokens = held.tokens
            end = datetime.fromtimestamp(tokens.expires_at, UTC) if tokens.expires_at else None
            return UpstreamTokenOut(tokens.access_token, tokens.scope, end, provider, held.subject)
        if not held.tokens.refresh_token:
            raise NoUpstreamToken
        if is_renewed:  # and ended already: asked again, the provider would say the same
            raise UpstreamUnavailable("expires_in")
        if await database().write(units.claim, held):
            await _renew(held, slug=provider, actor_id=actor_id)
            is_renewed = True
        else:
            await asyncio.sleep(PAUSE_S)
    raise UpstreamUnavailable("refresh")


async def _renew(held: Held, *, slug: str, actor_id: UUID | None) -> None:
    """Have the provider give new tokens, and keep them."""
    await providers.refresh()
    provider = providers.by_slug(slug)
    # Asked as another client since they were read, or not known as this one yet: a refresh token goes nowhere else.
    if provider is None or kept_tokens.Client(provider.issuer, provider.client_id) != held.client:
        raise UpstreamUnavailable("provider")
    try:
        answer = await answers.renewed(provider, held.tokens.refresh_token)
    except UpstreamRefused as error:
        get_logger().warning("upstream_refresh_refused", provider=slug, cause=error.cause)
        if error.said not in _OVER:
            raise UpstreamUnavailable(error.cause) from error
        await database().write(units.drop, held, slug=slug, actor_id=actor_id)
        raise NoUpstreamToken from error
    tokens = kept_tokens.told(answer, kind=provider.kind, asked=held.tokens.scope)
    if tokens is None:
        raise UpstreamUnavailable("tokens")
    await database().write(units.renew, held, tokens)
