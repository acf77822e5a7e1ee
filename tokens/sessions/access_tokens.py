"""Making access tokens: of a session, for whichever client it was opened, and of a client for itself."""

import secrets
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings

from ironauth.infrastructure.cache.two_level import ReadMark
from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.access.codec import AccessClaims, Actor
from tokens.clients.registry import Client
from tokens.details import lists as detail_lists
from tokens.keys.key_set import ActiveKey, Family
from tokens.keys.store import key_store
from tokens.principal import ActiveOrganization, Principal
from tokens.protocol import Scope, scope_set
from tokens.resources.queries import Aim
from tokens.sessions import authentication
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.outputs import TokenPair
from tokens.sessions.queries import LiveSession, OpenedSession

JTI_BYTES: Final = 16  # 128 random bits: no two tokens share one
_TELL_ROLES: Final = frozenset({Scope.ACCOUNT.value, Scope.ROLES.value})


class IssuedToken(NamedTuple):
    """An access token, and the seconds it has to live."""

    text: str
    expires_in: int


async def signing_key(client: Client) -> ActiveKey:
    """Return the key that signs access tokens for a client now: the one place that chooses the algorithm.

    The sessions of this server's own pages and API have no client, and Ed25519 (``key_store().signing()``).

    Args:
        client: The client that gets the token.

    Raises:
        SigningKeyMissing: (503) there is no such key.
    """
    return await key_store().signing(Family(client.access_token_alg))


def tells_roles(scope: str) -> bool:
    """Return whether a token of this scope may say which roles its person has."""
    return not _TELL_ROLES.isdisjoint(scope_set(scope))


def told_organization(organization: ActiveOrganization | None, scope: str) -> ActiveOrganization | None:
    """Return what a token of this scope may say of the organization that its person acts for; None for nothing.

    Args:
        organization: The organization, None as a rule.
        scope: What the token may do.
    """
    return organization if organization is not None and organizations.is_told(scope) else None


def _claims_of(organization: ActiveOrganization | None) -> dict[str, Any]:
    """Return the claims about an organization, none of none."""
    return {} if organization is None else {"org_id": organization.id, "org_roles": organization.roles}


def of_session(
    opened: OpenedSession,
    key: ActiveKey,
    mark: ReadMark | None = None,
    *,
    subject: UUID | None = None,
    scope: str | None = None,
    life_s: int | None = None,
    cnf: dict[str, str] | None = None,
    aim: Aim | None = None,
    details: str = "",
) -> IssuedToken:
    """Return an access token of the session; it never outlives it.

    Args:
        opened: The session.
        key: What signs the token.
        mark: Taken before the key was chosen and account and session were read; with it, this process knows the token
            already.
        subject: Who the person is to the client; None: by their own id.
        scope: None: all that the session has.
        life_s: Seconds; None: as the settings say.
        cnf: What it is bound to, as ``codec.confirmation`` writes it; None: any holder may use it.
        aim: The APIs that it is for, and what signs it; None: this server's own audience.
        details: Its authorization details, as they are stored; "" for none.
    """
    now = int(clock.unix())
    given = opened.scope if scope is None else scope
    # Staff who act as a person bring none of the person's roles to applications: roles may open what staff may not.
    acts, roles = opened.actor_id is not None, opened.account.user.roles if tells_roles(given) else ()
    organization = None if acts else told_organization(opened.organization, given)
    life = settings.IRONAUTH_ACCESS_TOKEN_S if life_s is None else life_s
    claims = AccessClaims(
        iss=settings.IRONAUTH_ISSUER,
        sub=subject or opened.account.id,
        aud=settings.IRONAUTH_AUDIENCE if aim is None else aim.audience,
        client_id=opened.client_id,
        iat=now,
        exp=min(now + life, int(opened.expires_at.timestamp())),
        jti=secrets.token_urlsafe(JTI_BYTES),
        sid=opened.session_id,
        scope=given,
        epoch=opened.account.session_epoch,
        roles=() if acts else roles,
        cnf=cnf,
        act=Actor(str(opened.actor_id), kind="staff") if acts else None,
        authorization_details=detail_lists.stored(details) if details else (),
        **_claims_of(organization),
    )
    text = codec.encode(claims, key)
    if mark is not None and not acts and codec.is_own(claims.aud):
        live = LiveSession(
            opened.account, opened.authenticated_at, opened.amr, opened.client_id, organization=organization
        )
        authentication.keep_issued(text, claims, kid=key.kid, live=live, mark=mark)
    return IssuedToken(text, claims.exp - now)


def of_client(
    client_id: UUID,
    key: ActiveKey,
    *,
    scope: str,
    life_s: int | None = None,
    cnf: dict[str, str] | None = None,
    aim: Aim | None = None,
    details: str = "",
) -> IssuedToken:
    """Return an access token that a client has for itself (RFC 6749 §4.4): nobody is behind it.

    Args:
        client_id: The client.
        key: What signs the token.
        scope: What it may do.
        life_s: Seconds; None: as the settings say.
        cnf: What it is bound to, as ``codec.confirmation`` writes it; None: any holder may use it.
        aim: The APIs that it is for, and what signs it; None: this server's own audience.
        details: Its authorization details, as they are stored; "" for none.
    """
    now = int(clock.unix())
    claims = AccessClaims(
        iss=settings.IRONAUTH_ISSUER,
        sub=client_id,
        aud=settings.IRONAUTH_AUDIENCE if aim is None else aim.audience,
        client_id=str(client_id),
        iat=now,
        exp=now + (settings.IRONAUTH_ACCESS_TOKEN_S if life_s is None else life_s),
        jti=secrets.token_urlsafe(JTI_BYTES),
        scope=scope,
        epoch=0,
        roles=(),
        cnf=cnf,
        authorization_details=detail_lists.stored(details) if details else (),
    )
    return IssuedToken(codec.encode(claims, key), claims.exp - now)


def of_person(
    person: Principal,
    key: ActiveKey,
    *,
    client_id: UUID,
    subject: UUID,
    scope: str,
    life_s: int,
    act: Actor,
    cnf: dict[str, str] | None,
    aim: Aim | None = None,
) -> IssuedToken:
    """Return an access token with which a client acts for a person whose token was shown (RFC 8693).

    It lives no longer than that one, and ends with the same session.

    Args:
        person: Who the token that was shown stands for.
        key: What signs the token.
        client_id: The client that acts.
        subject: Who the person is to that client.
        scope: What it may do.
        life_s: Seconds, at most.
        act: Who acts: the client, and those before it.
        cnf: What it is bound to, as ``codec.confirmation`` writes it; None: any holder may use it.
        aim: The APIs that it is for, and what signs it; None: this server's own audience.
    """
    now = int(clock.unix())
    claims = AccessClaims(
        iss=settings.IRONAUTH_ISSUER,
        sub=subject,
        aud=settings.IRONAUTH_AUDIENCE if aim is None else aim.audience,
        client_id=str(client_id),
        iat=now,
        exp=min(now + life_s, person.exp),
        jti=secrets.token_urlsafe(JTI_BYTES),
        sid=person.session_id,
        scope=scope,
        epoch=person.epoch,
        roles=person.user.roles if tells_roles(scope) else (),
        cnf=cnf,
        act=act,
        **_claims_of(told_organization(person.organization, scope)),
    )
    return IssuedToken(codec.encode(claims, key), claims.exp - now)


def token_pair(
    opened: OpenedSession,
    key: ActiveKey,
    mark: ReadMark | None = None,
    *,
    subject: UUID | None = None,
    cnf: dict[str, str] | None = None,
) -> TokenPair:
    """Return the tokens of a session; the access token never outlives the session.

    Args:
        opened: The session.
        key: What signs the access token.
        mark: As in ``of_session``.
        subject: As in ``of_session``.
        cnf: As in ``of_session``.
    """
    access = of_session(opened, key, mark, subject=subject, cnf=cnf)
    return TokenPair(
        access_token=access.text,
        token_type="DPoP" if cnf is not None and "jkt" in cnf else "Bearer",
        expires_in=access.expires_in,
        refresh_token=opened.refresh_token,
        refresh_expires_in=int(opened.expires_at.timestamp()) - int(clock.unix()),
        session_id=opened.session_id,
    )
