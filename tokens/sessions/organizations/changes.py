"""The organization of a session changes: its person chooses another one, or loses it. Parts of units of work."""

from collections.abc import Sequence
from uuid import UUID

from accounts.users.invariants import sub_tag
from ironauth.infrastructure.cache.invalidation import invalidate
from tokens.principal import organization_tag
from tokens.sessions.models import Session, sid_tag
from tokens.sessions.queries import StoredSession


def choose(session: StoredSession, organization_id: UUID | None) -> StoredSession:
    """Let a session act for another organization, or for none, and return it as it is now. 2 queries.

    Every process hears of it: tokens of the session that name the former one end.

    Args:
        session: The session, as it was read.
        organization_id: The organization, of which the person is a member; None for none.
    """
    Session.objects.filter(pk=session.id).update(organization_id=organization_id)
    invalidate(sid_tag(session.id))
    return session._replace(organization_id=organization_id)


def taken_out(*, organization_id: UUID, user_ids: Sequence[UUID], **_: object) -> None:
    """Take an organization out of these people's sessions; a receiver of ``membership_changed``. 2 queries.

    They have lost it, or have another role there. Published also where no session is found: one may choose it at this
    moment, by the membership of before, and its token must not be taken for good.

    Args:
        organization_id: The organization.
        user_ids: The people.
        **_: What else the signal brings.
    """
    sessions = Session.objects.filter(organization_id=organization_id)
    if len(user_ids) == 1:
        sessions.filter(user_id=user_ids[0]).update(organization_id=None)
        invalidate(sub_tag(user_ids[0]))
    elif user_ids:  # it was deleted: nobody acts for it any more
        sessions.update(organization_id=None)
        invalidate(organization_tag(organization_id))
