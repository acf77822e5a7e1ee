"""What a token stands for, asked by clients (RFC 7662): one answer for everything that is not active, no oracle.

A client may ask about its own tokens, a resource server about everybody's access tokens for the APIs that it is. These
are looked up where the API itself looks. So a warm one costs no query, and a revoked one is inactive within the same
bound.
"""

from collections.abc import Set as AbstractSet
from uuid import UUID

import msgspec
from django.conf import settings

from accounts.users.outputs import UserOut
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec
from tokens.access.codec import AccessClaims, Actor
from tokens.clients import subjects
from tokens.clients import tokens as client_tokens
from tokens.clients.registry import Client
from tokens.errors import InvalidToken
from tokens.oauth.token import shown
from tokens.principal import Principal
from tokens.protocol import Scope, scope_set, scope_text
from tokens.resources import identifiers
from tokens.sessions import authentication, refresh_token
from tokens.sessions.refresh import queries as refresh_queries
from tokens.sessions.refresh_token import ParsedRefreshToken

#: The whole answer for a token that is not active, or not the caller's to ask about (RFC 7662 §2.2).
INACTIVE = b'{"active":false}'


class Introspection(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an active token stands for (RFC 7662 §2.2), or ``active`` alone; times in unix seconds.

    ``sub``: who the person is, for good. ``username``: their e-mail address, for people to read, where the token has
    the scope email and the address is verified: of another one nobody knows whose it is. ``sid``: the session.
    ``token_type``: left out for a refresh token. ``auth_time`` and ``amr`` as in ID tokens, for a person's tokens.
    """

    active: bool
    iss: str = ""
    client_id: str = ""
    sub: str = ""
    exp: int = 0
    scope: str = ""
    username: str = ""
    token_type: str = ""
    aud: str | tuple[str, ...] | None = None
    iat: int | None = None
    jti: str = ""
    sid: UUID | None = None
    auth_time: int | None = None
    amr: tuple[str, ...] = ()
    cnf: dict[str, str] | None = None
    act: Actor | None = None


async def introspect(*, token: str, caller: Client) -> Introspection | None:
    """Return what ``token`` stands for, None when it is not active or not the caller's to ask about.

    No query for an access token this process knows, one for others and for a refresh token.

    Args:
        token: A text of any kind, not yet judged.
        caller: The client that asks, authenticated.

    Raises:
        Unavailable: (503) that cannot be asked: "inactive" would be a guess.
    """
    parsed = refresh_token.parse(token)
    if parsed is not None:
        return await _of_refresh_token(parsed, caller)
    found = await _of_access_token(token)
    return found if found is not None and _may_ask(caller, found) else None


def _may_ask(caller: Client, found: Introspection) -> bool:
    """Return whether the token is the caller's own, or for an API that the caller is."""
    if found.client_id == caller.client_id:
        return True
    audience = identifiers.listed(found.aud or ())
    return caller.resource_server and not frozenset(audience).isdisjoint(caller.serves or (identifiers.own(),))


async def _of_access_token(token: str) -> Introspection | None:
    """Return what an active access token stands for."""
    try:
        principal = authentication.known(token)
        if principal is None:
            verified = await shown.decoded(token)
            if verified.claims.sid is None:
                return await _of_client_token(verified.claims)
            # The caller is told of staff who act as the person, in ``act``.
            principal = await shown.principal_of(token, verified)
    except InvalidToken:
        return None
    # The principal is this very text's, which was verified: its other claims need no second look.
    return _of_person(codec.claims_of(token), principal)


def _of_person(claims: AccessClaims, principal: Principal) -> Introspection:
    return msgspec.structs.replace(
        _of_claims(claims),
        username=_username(principal.user, scope_set(claims.scope)),
        sid=claims.sid,
        auth_time=principal.authenticated_at or None,
        amr=tuple(principal.amr.split()),
    )


async def _of_client_token(claims: AccessClaims) -> Introspection | None:
    return _of_claims(claims) if await client_tokens.is_active(claims) else None


def _of_claims(claims: AccessClaims) -> Introspection:
    """Return what the token itself says."""
    return Introspection(
        active=True,
        iss=claims.iss,
        client_id=claims.client_id,
        sub=str(claims.sub),
        exp=claims.exp,
        scope=claims.scope,
        token_type="DPoP" if claims.jkt else "Bearer",
        aud=claims.aud,
        iat=claims.iat,
        jti=claims.jti,
        cnf=claims.cnf,
        act=claims.act,
    )


def _username(user: UserOut, scopes: AbstractSet[str]) -> str:
    return user.email if Scope.EMAIL in scopes and user.email_verified else ""


async def _of_refresh_token(parsed: ParsedRefreshToken, caller: Client) -> Introspection | None:
    """Return what a refresh token that would be accepted now stands for, to its own client alone."""
    session = await database().read(refresh_queries.usable, parsed=parsed)
    if session is None or session.client_id != caller.client_id:
        return None
    scopes = scope_set(caller.allowed_of(session.scope))
    return Introspection(
        active=True,
        iss=settings.IRONAUTH_ISSUER,
        client_id=session.client_id,
        sub=subjects.subject_of(caller, session.account.id),
        exp=int(session.idle_expires_at.timestamp()),
        scope=scope_text(scopes),
        username=_username(session.account.user, scopes),
        sid=session.id,
        auth_time=int(session.authenticated_at.timestamp()) or None,
        amr=tuple(session.amr.split()),
    )
