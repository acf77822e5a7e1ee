"""Sessions at work: refreshing, signing out, and a person's own list of them. Async, keyword-only."""

from datetime import datetime
from typing import Final
from uuid import UUID

from accounts.lockout import rate_limits
from accounts.users import services as accounts
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core.errors import FieldError, NotFound, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.errors import InvalidRefreshToken
from tokens.keys.store import key_store
from tokens.principal import Principal
from tokens.sessions import queries as session_queries
from tokens.sessions import refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.acting import units as acting
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import FIRST_PARTY_CLIENT
from tokens.sessions.outputs import SessionOut, TokenPair
from tokens.sessions.refresh import queries as refresh_queries
from tokens.sessions.refresh import units as refresh_units
from tokens.sessions.refresh.queries import Outcome
from tokens.sessions.refresh.units import Wanted

log = get_logger()
NO_MEMBER: Final = FieldError(
    field="organization", code="not_a_member", message="You belong to no organization of this id or slug."
)


async def refresh(*, token: str, address: str = "", organization: str | None = None) -> TokenPair:
    """Exchange a refresh token for the next pair; a reused one ends its session, committed, before this raises.

    Args:
        token: The refresh token.
        address: The caller's; "": unknown, not counted.
        organization: The id or slug of the one to act for from now on, "" for none; None: as before.

    Raises:
        InvalidRefreshToken: (401) saying whether the session is over.
        SigningKeyMissing: (503) before anything is changed.
        ValidationFailed: (400) the person belongs to no such organization; the token stays good.
        Throttled: (429) instead of the 401, when too many came from the address. A valid token is never counted.
    """
    parsed = refresh_token.parse(token)
    if parsed is None:
        await rate_limits.admit(rate_limits.REFRESH, address=address)
        raise InvalidRefreshToken
    mark = token_cache().mark()
    key = await key_store().signing()
    wanted = refresh_units.ALL if organization is None else Wanted(organization=organization)
    rotation = await database().write_autocommit(refresh_units.rotate, parsed=parsed, wanted=wanted)
    event = log.warning if rotation.outcome is Outcome.REUSE else log.info
    event("refresh", outcome=rotation.outcome.value, session_id=str(parsed.session_id))
    if rotation.outcome is Outcome.NO_MEMBER:
        raise ValidationFailed(errors=[NO_MEMBER])
    if rotation.opened is None:
        await rate_limits.admit(rate_limits.REFRESH, address=address)
        raise InvalidRefreshToken(session_over=rotation.session_over)
    return token_pair(rotation.opened, key, mark)


async def named_by(*, token: str) -> UUID | None:
    """Return the session of this service's own API that a cookie's refresh token is good for; None for any other token.

    One that is good for nothing is taken for a copy, as a refresh does.

    Args:
        token: The refresh token; "" for none.
    """
    parsed = refresh_token.parse(token)
    if parsed is None:
        return None
    found = await database().read(refresh_queries.usable, parsed=parsed)
    if found is not None:
        return found.id if found.client_id == FIRST_PARTY_CLIENT else None
    named = await database().write(refresh_units.of_replaced_cookie, token)
    return named.session_id if named is not None else None


async def access_for(*, token: str, address: str = "") -> TokenPair:
    """Return an access token for a refresh token of this service's own API, which stays as it is, like its session.

    Args:
        token: The refresh token.
        address: The caller's; "": unknown, not counted.

    Raises:
        InvalidRefreshToken: (401) It is not good.
        SigningKeyMissing: (503) No token can be signed.
        Throttled: (429) Instead of the 401, when too many came from the address.
    """
    parsed = refresh_token.parse(token)
    mark = token_cache().mark()
    key = await key_store().signing()
    opened = await database().read(refresh_queries.kept, parsed=parsed) if parsed is not None else None
    if opened is None:
        await rate_limits.admit(rate_limits.REFRESH, address=address)
        raise InvalidRefreshToken
    return token_pair(opened, key, mark)


async def is_usable(*, token: str) -> bool:
    """Return whether a refresh token would be accepted now; it is not used up."""
    parsed = refresh_token.parse(token)
    return parsed is not None and await database().read(refresh_queries.usable, parsed=parsed) is not None


async def sign_out(*, session_id: UUID, user_id: UUID, actor_id: UUID | None = None) -> None:
    """End one session of this user; ending one that is over already is no error.

    Args:
        session_id: The session.
        user_id: Its person.
        actor_id: The member of staff who acts as the person in it, None as a rule.
    """
    await database().write(sessions.sign_out, session_id=session_id, user_id=user_id, actor_id=actor_id)
    log.info("signed_out", session_id=str(session_id))


async def sign_in_as(
    *, actor_id: UUID, user_id: UUID, reason: str, context: ClientContext, until: datetime, previous: str
) -> TokenPair:
    """Open a session in which a member of staff looks at what a person sees.

    The one that the browser had at the account's page ends: nobody could end it there any more.

    Args:
        actor_id: The member of staff.
        user_id: The person.
        reason: Why; both trails keep it.
        context: Where the request comes from.
        until: When the session they ask from ends at the latest.
        previous: The refresh token of the browser, "" for none.

    Raises:
        NotFound: There is no such person, or this is switched off.
        PermissionDenied: They lack the permission, or may not sign in as this person.
        NotAuthenticated: The caller's account is gone or inactive.
        SigningKeyMissing: (503) before anything is changed.
    """
    key = await key_store().signing()
    opened = await database().write(
        acting.begin, actor_id=actor_id, user_id=user_id, reason=reason, context=context, until=until
    )
    log.info("signed_in_as", user_id=str(user_id), by=str(actor_id), session_id=str(opened.session_id))
    parsed = refresh_token.parse(previous)
    found = await database().read(refresh_queries.session_of, parsed=parsed) if parsed is not None else None
    if found is not None:
        await sign_out(session_id=found.id, user_id=found.account.id, actor_id=found.actor_id)
    return token_pair(opened, key)


async def sign_out_by_refresh_token(*, token: str) -> None:
    """End the session a refresh token of ours names, whatever its generation.

    Raises:
        InvalidRefreshToken: (401) this server did not make the token or has forgotten its session.
    """
    parsed = refresh_token.parse(token)
    found = await database().read(refresh_queries.session_of, parsed=parsed) if parsed is not None else None
    if found is None:
        raise InvalidRefreshToken
    await database().write(refresh_units.of_replaced_cookie, token)  # after it nothing shows the token any more
    await sign_out(session_id=found.id, user_id=found.account.id, actor_id=found.actor_id)


async def sign_out_everywhere(*, principal: Principal) -> None:
    """End every session of the caller, in one statement on the user's row."""
    await accounts.end_all_sessions(user_id=principal.id, session_id=principal.session_id)


async def list_sessions(*, principal: Principal) -> list[SessionOut]:
    """Return the caller's live sessions, the most recently used first."""
    return await database().read(session_queries.of_user, user_id=principal.id, current_id=principal.session_id)


async def end_other_sessions(*, principal: Principal) -> None:
    """End every session of the caller but the one they ask from.

    Raises:
        NotAuthenticated: (401) that one is over.
    """
    ended = await database().write(
        sessions.end_other_sessions,
        user_id=principal.id,
        epoch=principal.epoch,
        from_session_id=principal.session_id,
    )
    log.info("other_sessions_ended", user_id=str(principal.id), sessions=ended)


async def end_own_session(*, principal: Principal, session_id: UUID) -> None:
    """End one of the caller's sessions.

    Args:
        principal: The caller.
        session_id: The session to end; it may be the caller's present one.

    Raises:
        NotFound: (404) the caller has no such live session: another person's is not told apart.
    """
    ended = await database().write(
        session_ends.end_own_session,
        session_id=session_id,
        user_id=principal.id,
        epoch=principal.epoch,
        from_session_id=principal.session_id,
    )
    if not ended:
        raise NotFound("You have no such session: see /api/v1/access/sessions for those you have.")
    log.info("session_ended", user_id=str(principal.id), session_id=str(session_id))
