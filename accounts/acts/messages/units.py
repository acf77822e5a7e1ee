"""Units of work of staff on messages to one person."""

import uuid

from accounts.access.rights import CHANGE_USERS, VIEW_USERS, rights_of, target_of
from accounts.acts.messages.outputs import MessageOut
from accounts.outbox import queue as outbox
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound

_NO_USER = "There is no user with this id."


def waiting(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> list[MessageOut]:
    """Return the messages to a person that were not accepted yet, the newest first.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: The caller may not see users.
        NotFound: There is no such user.
    """
    rights_of(actor_id).require(VIEW_USERS)
    if not User.objects.filter(pk=user_id).exists():
        raise NotFound(_NO_USER)
    found = OutgoingMail.objects.filter(user_id=user_id).exclude(recipient="").order_by("-id")
    return [
        MessageOut(
            id=one.pk,
            kind=one.kind,
            recipient=one.recipient,
            tries=one.tries,
            created_at=one.created_at,
            next_try_at=one.next_try_at if one.failed_at is None else None,
            failed_at=one.failed_at,
        )
        for one in found
    ]


def try_again(*, actor_id: uuid.UUID, user_id: uuid.UUID, message_id: uuid.UUID) -> bool:
    """Have a message sent at the next delivery, also one that was given up; False where it is being sent right now.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        message_id: The message.

    Raises:
        PermissionDenied: The caller may not change users, or not this one.
        NotFound: There is no such user, or no such message to them.
    """
    rights, user = target_of(actor_id, user_id, CHANGE_USERS)
    if user is None:
        raise NotFound(_NO_USER)
    rights.require_above(user)
    if not OutgoingMail.objects.filter(pk=message_id, user_id=user_id).exclude(recipient="").exists():
        raise NotFound("No such message to this person waits: it was sent, or is worth nothing any more.")
    return outbox.try_again([message_id], actor_id=actor_id) == 1
