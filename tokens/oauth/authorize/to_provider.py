"""Sending somebody on to another provider, and noting what they came back with."""

from uuid import UUID

import msgspec
from django.http import HttpResponse

from accounts.lockout import rate_limits
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.db.unit_of_work import database
from tokens.oauth.authorize import responses
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.state import LIFE_S, AccountState, AuthorizationState, SignInState
from tokens.sessions import services as sessions
from tokens.sessions.models import BY_UPSTREAM
from tokens.sign_in.proofs import SignInProof
from tokens.upstream import services
from tokens.upstream import units as upstream
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


async def note(request: ApiRequest, proof: SignInProof, session_id: UUID, state: SignInState) -> list[str] | None:
    """Link the identity at another provider that this browser has shown, and note which session it began.

    Only where it was what signed the person in, or the page has said that it would be linked: a sign-in with a provider
    that was given up for a password leaves no trace.

    Args:
        request: The request that signs in.
        proof: Who has signed in, and how.
        session_id: The session that it opened.
        state: Where they come from.

    Returns:
        The user agents of the sessions that have ended by the linking; None where nothing was linked on a page.
    """
    by_identity = BY_UPSTREAM in proof.amr.split()
    if state.upstream_id is not None and (by_identity or state.upstream):
        ended = await database().write(
            upstream.note_session,
            user_id=proof.user_id,
            session_id=session_id,
            waiting_id=state.upstream_id,
            browser=authorization_state.browser_of(request),
            by_identity=by_identity,
        )
        return ended if state.upstream else None
    return None
