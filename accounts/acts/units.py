"""The unit of work of an act on one person, by staff and machines."""

import uuid

from accounts.access.rights import target_of
from accounts.acts.change import Change
from accounts.errors import NothingToDo
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied


def perform(*, actor_id: uuid.UUID, user_id: uuid.UUID, change: Change) -> None:
    """Do to one person what the admin does to those who are ticked, and spare the same people.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person; locked until the transaction ends.
        change: The act.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not do it, or not to this person.
        NothingToDo: It does not concern this account.
    """
    rights, user = target_of(actor_id, user_id, change.right)
    if user is None:
        raise NotFound("There is no user with this id.")
    rights.require_above(user)
    if change.spares_oneself and user_id == actor_id:
        raise PermissionDenied("You would lock yourself out: ask a colleague to do it.")
    if change.takes_over:
        rights.require_all_of(user)
    person = User.objects.get_queryset().filter(change.concerns, pk=user_id)
    if not person.exists() or (change.spared is not None and change.spared(person).exists()):
        raise NothingToDo
    change.carry_out([user_id], actor_id)
