"""The organization that a session acts for, asked inside units of work. One query each; none for a session without one.

The session keeps which one was chosen, and the membership decides each time: a token is made, and confirmed, by the row
that says which role its person has now. Nothing here is entered where no organization was chosen or named.
"""

from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import models

from accounts.organizations.models import Membership
from ironauth.infrastructure.db.compiled import CompiledSelect, Param
from tokens.access.codec import AccessClaims
from tokens.principal import ActiveOrganization
from tokens.protocol import Scope, scope_set
from tokens.sessions import queries as session_queries
from tokens.sessions.queries import LiveSession, NewSession, StoredSession

#: Characters of an id or a slug; a longer text names none.
NAME_CHARACTERS: Final = 64
_TELL: Final = frozenset({Scope.ACCOUNT.value, Scope.ORGANIZATION.value})
_COLUMNS: Final = ("organization_id", "organization__name", "organization__slug", "role")
_USER: Final = Param("user_id", models.UUIDField())
_BY_ID: Final = CompiledSelect(
    lambda: (
        Membership.objects.filter(user_id=_USER, organization_id=Param("organization_id", models.UUIDField()))
        .order_by()
        .values_list(*_COLUMNS)
    )
)
_BY_SLUG: Final = CompiledSelect(
    lambda: (
        Membership.objects.filter(user_id=_USER, organization__slug=Param("slug", models.CharField()))
        .order_by()
        .values_list(*_COLUMNS)
    )
)


def is_on() -> bool:
    """Return whether people may act for organizations here."""
    return bool(settings.IRONAUTH_ORGANIZATIONS != "off")


def is_told(scope: str) -> bool:
    """Return whether a token of this scope may say which organization its person acts for."""
    return not _TELL.isdisjoint(scope_set(scope))


def find(user_id: UUID, organization_id: UUID) -> ActiveOrganization | None:
    """Return the organization with the person's role there; None where they are no member. 1 query.

    Args:
        user_id: The person.
        organization_id: The organization.
    """
    rows = _BY_ID.rows(user_id=user_id, organization_id=organization_id) if is_on() else []
    return ActiveOrganization(*rows[0]) if rows else None


def named(user_id: UUID, name: str) -> ActiveOrganization | None:
    """Return the organization that somebody names, with the person's role there. 1 query.

    None where they are no member of it: one that does not exist is not told apart.

    Args:
        user_id: The person.
        name: Its id or its slug, as it was received.
    """
    if not is_on() or not 0 < len(name) <= NAME_CHARACTERS or not name.isprintable():
        return None
    try:
        return find(user_id, UUID(name))  # a slug that looks like an id names nothing: it could be another one's id
    except ValueError:
        pass
    rows = _BY_SLUG.rows(user_id=user_id, slug=name.lower())
    return ActiveOrganization(*rows[0]) if rows else None


def of_session(session: NewSession | StoredSession) -> ActiveOrganization | None:
    """Return what the person of a session acts for in it; None where nothing was chosen, or is left. 1 query, or none.

    Staff who act as the person act for no organization of theirs.

    Args:
        session: The session, as it is stored now.
    """
    if session.organization_id is None or session.actor_id is not None:
        return None
    user_id = session.user_id if isinstance(session, NewSession) else session.account.id
    return find(user_id, session.organization_id)


def live_account(claims: AccessClaims, *, user_id: UUID) -> LiveSession | None:
    """Return what ``sessions.queries.live_account`` does, with the organization that a token names. 1 query.

    Where the token names one, 2 queries, and None too where the session acts for another one by now, and where the
    person has left it or has other roles there: such a token has ended, as its session has not.

    Args:
        claims: What the token says, which names a session.
        user_id: Whose it is.

    Raises:
        ValueError: It names no session.
    """
    if claims.sid is None:
        raise ValueError("a token without a session stands for nobody")
    live = session_queries.live_account(session_id=claims.sid, user_id=user_id, epoch=claims.epoch)
    if live is None or claims.org_id is None:
        return live
    found = find(user_id, claims.org_id) if live.organization_id == claims.org_id else None
    return live._replace(organization=found) if found is not None and found.roles == claims.org_roles else None
