"""Revocation by clients that need a token no more (RFC 7009): what ends, and whose."""

from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.access.codec import VerifiedToken
from tokens.clients import tokens as client_tokens
from tokens.clients.errors import UnsupportedTokenType
from tokens.clients.registry import Client
from tokens.errors import InvalidToken
from tokens.oauth.token import shown
from tokens.principal import Principal
from tokens.sessions import authentication, refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.refresh import queries as refresh_queries
from tokens.sessions.refresh_token import ParsedRefreshToken

log = get_logger()


async def revoke(*, token: str, caller: Client) -> None:
    """End what the token stands for, if it is the caller's; nothing happens for any other text.

    A refresh token ends its session, whatever its generation, and with it every access token of the session. An access
    token of a session ends the session too: a client that revokes it wants its user signed out, and the session would
    give out the next one at once (RFC 7009 §2.1 leaves it to the server). A token that a client has for itself ends
    alone.

    Args:
        token: A text of any kind, not yet judged.
        caller: The client that asks, authenticated.

    Raises:
        UnsupportedTokenType: (400) the token was got in exchange: its session is another client's.
        Unavailable: (503) that cannot be done now: the client is to try again.
    """
    parsed = refresh_token.parse(token)
    if parsed is not None:
        await _revoke_refresh_token(parsed, caller)
        return
    try:
        verified = await shown.decoded(token)
    except InvalidToken:
        return
    claims = verified.claims
    if claims.client_id != caller.client_id:
        return
    if claims.act is not None:  # its session is another client's
        raise UnsupportedTokenType
    if claims.sid is None:
        if await database().write(client_tokens.revoke, claims=claims):
            log.info("client_token_revoked", client_id=caller.client_id)
        return
    principal = await _live(token, verified)
    if principal is not None:
        await database().write(sessions.sign_out, session_id=principal.session_id, user_id=principal.id)
        log.info("session_revoked", session_id=str(principal.session_id), client_id=caller.client_id)


async def _live(token: str, verified: VerifiedToken) -> Principal | None:
    """Return whose the token is while its session lives."""
    try:
        return authentication.known(token) or await shown.principal_of(token, verified)
    except InvalidToken:
        return None


async def _revoke_refresh_token(parsed: ParsedRefreshToken, caller: Client) -> None:
    session = await database().read(refresh_queries.session_of, parsed=parsed)
    if session is None or session.client_id != caller.client_id:
        return
    await database().write(sessions.sign_out, session_id=session.id, user_id=session.account.id)
    log.info("session_revoked", session_id=str(session.id), client_id=caller.client_id)
