"""Units of work on invitations: made, sent and withdrawn by staff, opened and accepted by who has the link.

Those of staff check the caller's rights inside their own transaction.
"""

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings

from accounts import email_address as emails
from accounts.access import roles as access_roles
from accounts.access.rights import rights_of
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import SignUpClosed
from accounts.invitations import queries
from accounts.invitations.errors import InvalidInvitation
from accounts.invitations.models import Invitation
from accounts.invitations.outputs import InvitationOut, invitation_out
from accounts.invitations.queries import require_grantable
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from accounts.privacy import terms
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.outputs import UserOut, user_out
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.core.ids import new_id

ADD, VIEW, DELETE = "accounts.add_invitation", "accounts.view_invitation", "accounts.delete_invitation"
NO_INVITATION: Final = "There is no invitation with this id that waits for an answer."


class Invited(NamedTuple):
    """What the link of an invitation opens. ``taken``: an account has the address by now."""

    id: uuid.UUID
    token_id: uuid.UUID
    email: str
    name: str
    taken: bool


def find(token: str) -> Invited | None:
    """Return what a link opens; None where it opens nothing. Three queries at most, and no change."""
    token_id = email_tokens.find_without_user(token, Purpose.INVITATION)
    row = queries.waiting(clock.now()).filter(token_id=token_id).first() if token_id else None
    if row is None or token_id is None:
        return None
    return Invited(row.pk, token_id, row.email, row.name, user_queries.email_is_taken(row.email_key))


def accept(*, invited: Invited, encoded: str, name: str) -> UserOut:
    """Use the invitation and its link up, and create its person, whose address the link has proved.

    Args:
        invited: What the link opens, as it was found before the hash.
        encoded: The hash of the password.
        name: The display name.

    Raises:
        InvalidInvitation: It was used, withdrawn or sent anew meanwhile.
        IntegrityError: The address was taken meanwhile.
    """
    found = queries.waiting(clock.now()).filter(pk=invited.id, token_id=invited.token_id)
    row = queries.take(found)
    if row is None or not email_tokens.consume(invited.token_id):
        raise InvalidInvitation
    user = User.objects.hashed(
        email=row.email,
        encoded=encoded,
        name=name,
        language=row.language,
        email_verified_at=clock.now(),
        **terms.kept(),
    )
    user_queries.add(user)
    return user_out(user, queries.given_to(user, row, {}))


def require_may_invite(*, actor_id: uuid.UUID, roles: list[str]) -> None:
    """Raise what forbids an invitation with these roles; nothing is written.

    Args:
        actor_id: The member of staff.
        roles: The names of the roles.

    Raises:
        SignUpClosed: Nobody may make an account here, with a link neither.
        PermissionDenied: The caller may not invite, or may not give one of the roles.
        ValidationFailed: (``roles``) One is unknown.
    """
    rights = rights_of(actor_id)
    rights.require(ADD)
    require_grantable(rights, access_roles.named(roles))
    if settings.IRONAUTH_SIGN_UP == "closed":
        raise SignUpClosed("Sign-up is closed (IRONAUTH_SIGN_UP): an invitation would open nothing.")


def invite(*, actor_id: uuid.UUID, values: Mapping[str, Any]) -> InvitationOut:
    """Store an invitation and queue its message. Whether anybody has the address is not looked at.

    An invitation to the address that has expired is withdrawn.

    Args:
        actor_id: The member of staff.
        values: The fields of ``InvitationInput``.

    Raises:
        IntegrityError: One waits for an answer.
        DomainError: What ``require_may_invite`` raises.
    """
    roles = sorted(set(values["roles"]))
    require_may_invite(actor_id=actor_id, roles=roles)
    now, key = clock.now(), emails.fold(values["email"])
    waiting = Invitation.objects.filter(email_key=key, accepted_at=None, withdrawn_at=None)
    waiting.filter(expires_at__lte=now).update(withdrawn_at=now)
    row = Invitation(
        id=new_id(),
        email=values["email"],
        email_key=key,
        name=values["name"],
        language=values["language"],
        roles=roles,
        invited_by_id=actor_id,
        created_at=now,
    )
    _send(row, create=True)
    audit.record(Event.INVITATION_MADE, actor_id=actor_id, details={"invitation": str(row.pk), "roles": roles})
    return invitation_out(row)


def send_again(*, actor_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    """Queue another message with a new link, which works as long as the first did; the link before opens nothing.

    Args:
        actor_id: The member of staff.
        invitation_id: The invitation.

    Raises:
        NotFound: None with this id waits for an answer; an expired one does.
        PermissionDenied: The caller may not invite.
        SignUpClosed: As above.
    """
    require_may_invite(actor_id=actor_id, roles=[])
    row = _locked(invitation_id)
    if row.token_id is not None:
        EmailToken.objects.filter(pk=row.token_id).delete()  # with the message that waits to be sent
    _send(row)
    audit.record(Event.INVITATION_SENT_AGAIN, actor_id=actor_id, details={"invitation": str(row.pk)})


def withdraw(*, actor_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    """End an invitation: its link opens nothing, and a message that waits is not sent.

    Args:
        actor_id: The member of staff.
        invitation_id: The invitation.

    Raises:
        NotFound: None with this id waits for an answer.
        PermissionDenied: The caller may not do it.
    """
    rights_of(actor_id).require(DELETE)
    row = _locked(invitation_id)
    Invitation.objects.filter(pk=row.pk).update(withdrawn_at=clock.now(), token=None)
    if row.token_id is not None:
        EmailToken.objects.filter(pk=row.token_id).delete()
    audit.record(Event.INVITATION_WITHDRAWN, actor_id=actor_id, details={"invitation": str(row.pk)})


def _locked(invitation_id: uuid.UUID) -> Invitation:
    """Return an invitation that nobody has answered, locked. Raises ``NotFound``."""
    unanswered = Invitation.objects.filter(accepted_at=None, withdrawn_at=None)
    row = unanswered.select_for_update(of=("self",)).filter(pk=invitation_id).first()
    if row is None:
        raise NotFound(NO_INVITATION)
    return row


def _send(row: Invitation, *, create: bool = False) -> None:
    """Issue the token of a message, store it with the invitation, and queue the message."""
    row.expires_at = clock.now() + timedelta(days=settings.IRONAUTH_INVITATION_TTL)
    row.token_id = email_tokens.issue(purpose=Purpose.INVITATION, user_id=None, expires_at=row.expires_at)
    row.save(force_insert=create)
    facts = {"language": row.language} if row.language else None
    outbox.enqueue(Kind.INVITATION, recipient=row.email, token_id=row.token_id, facts=facts)
