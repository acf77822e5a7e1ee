"""Sending somebody on to another provider."""

import msgspec
from django.http import HttpResponse

from accounts.lockout import rate_limits
from tokens.oauth.authorize import responses
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.state import LIFE_S, AccountState, AuthorizationState
from tokens.sessions import services as sessions
from tokens.upstream import services
from tokens.upstream.providers import Provider


async def go(
    provider: Provider,
    state: AuthorizationState | AccountState,
    *,
    browser: str,
    address: str,
    email: str = "",
    previous: str = "",
) -> HttpResponse:
    """Return the way to the provider; the person goes on from ``state`` when they come back.

    Args:
        provider: Where they sign in.
        state: Where they come from.
        browser: What this browser's cookie says, or is about to.
        address: The client's.
        email: The address that was typed; "" for the one that the application expects, if it does.
        previous: The refresh token of the browser's cookie, which a sign-in to a page of this site replaces.

    Raises:
        Throttled: (429) too many came from this client.
        UpstreamUnavailable: (503) the provider does not answer.
    """
    await rate_limits.admit(rate_limits.UPSTREAM, address=address)
    fresh = msgspec.structs.replace(
        state, mfa_token="", methods=(), code_id=None, upstream_id=None, upstream="", auth_time=0
    )
    if isinstance(fresh, AccountState):
        fresh = msgspec.structs.replace(fresh, replaces=await sessions.named_by(token=previous))
    expected = state.request.login_hint if isinstance(state, AuthorizationState) else ""
    there = await services.begin(
        provider=provider,
        page=authorization_state.stored(fresh),
        browser=browser,
        life_s=LIFE_S,
        login_hint=email or expected,
        max_age_s=state.max_age_s,
    )
    return responses.on_to_provider(there)
