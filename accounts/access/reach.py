"""Whose way in staff may take away: somebody else's, who holds no right that they lack."""

import uuid

from accounts.access.rights import REMOVE_FACTORS, target_of
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied


def other_in_reach(actor_id: uuid.UUID, user_id: uuid.UUID) -> User:
    """Return the person who loses something to sign in with by a member of staff, locked.

    Args:
        actor_id: The member of staff.
        user_id: The person.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: Without `REMOVE_FACTORS`, for one's own account, and for somebody who holds rights that
            ``actor_id`` does not: with a new password it would be a way to them.
        DeletionPending: The account is being deleted: the message would go to nobody.
    """
    rights, user = target_of(actor_id, user_id, REMOVE_FACTORS)
    if user is None:
        raise NotFound("There is no user with this id.")
    if user_id == actor_id:
        raise PermissionDenied("This is your own account: remove your factors there, or ask a colleague.")
    rights.require_all_of(user)
    user_rules.refuse_being_deleted(user)
    return user
