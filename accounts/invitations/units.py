"""Units of work on invitations: made, sent and withdrawn by staff, opened and accepted by the holder of the link.

Those of staff check the caller's rights inside their own transaction.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.conf import settings

from accounts import email_address as emails
from accounts.access import roles as access_roles
from accounts.access.rights import ADD_INVITATIONS, DELETE_INVITATIONS, Rights, rights_of
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.email import first_proof
from accounts.errors import EmailTaken, SignUpClosed
from accounts.invitations import continuing, queries
from accounts.invitations.continuing import Application
from accounts.invitations.errors import InvalidInvitation
from accounts.invitations.models import Invitation
from accounts.invitations.outputs import InvitationOut, invitation_out
from accounts.invitations.queries import require_grantable
from accounts.lockout import throttling
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken
from accounts.privacy import terms
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.outputs import UserOut, user_out
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.core.ids import new_id

NO_ROLES: Final = "Who invites has to hold the rights of a role when the person accepts: give roles afterwards."


class Invited(NamedTuple):
    """What the link of an invitation opens. ``taken``: an account has proved the address by now, or is closed.

    ``application``: where it leads, while that can be continued to. ``language``: of its message and of the person; ""
    where staff have chosen none. ``token_id``: of the link; None once it is used up. ``organization``: the name of what
    the person becomes a member of; "" for none.
    """

    id: uuid.UUID
    token_id: uuid.UUID | None
    email: str
    name: str
    taken: bool
    application: Application | None = None
    language: str = ""
    organization: str = ""


def find(token: str) -> Invited | None:
    """Return what a link opens; None where it opens nothing. Three queries at most, and no change.

    One query more for an invitation to an organisation.
    """
    row = queries.opened(token)
    return _invited(row, row.token_id) if row is not None and row.token_id is not None else None


def used(invitation_id: uuid.UUID) -> Invited | None:
    """Return what an invitation has led to that somebody has accepted; None for any other. Three queries at most.

    Args:
        invitation_id: The invitation.
    """
    found = Invitation.objects.select_related("organization").filter(pk=invitation_id, accepted_at__isnull=False)
    row = found.first()
    return _invited(row, None) if row is not None else None


def _invited(row: Invitation, token_id: uuid.UUID | None) -> Invited:
    leads = continuing.find(row.client)
    organization = row.organization.name if row.organization is not None else ""
    taken = _is_taken(row.email_key)
    return Invited(row.pk, token_id, row.email, row.name, taken, leads, row.language, organization)


def _is_taken(key: str) -> bool:
    """Tell whether an account has this folded address that does not become the invited one. One query."""
    holder = User.objects.filter(email_key=key).values_list("is_active", "email_verified_at").first()
    return holder is not None and not _may_start_clean(*holder)


def _may_start_clean(is_active: bool, email_verified_at: datetime | None) -> bool:
    return is_active and email_verified_at is None


def accept(*, invited: Invited, encoded: str, name: str) -> UserOut:
    """Use the invitation and its link up, and create its person, whose address the link has proved.

    Where an account has the address that nobody has proved, a stranger may have made it, to void the invitation. The
    link is the first proof then: the account starts clean (``first_proof``), and becomes the invited one.

    Args:
        invited: What the link opens, as it was found before the hash.
        encoded: The hash of the password.
        name: The display name.

    Raises:
        InvalidInvitation: It was used, withdrawn or sent anew meanwhile.
        EmailTaken: The address was proved meanwhile, or its account closed.
        DomainError: It is to an organisation, and nobody can become a member by it any more.
        IntegrityError: The address was taken meanwhile.
    """
    found = queries.waiting(clock.now()).filter(pk=invited.id, token_id=invited.token_id)
    seen = found.first()
    if seen is None:
        raise InvalidInvitation
    holder = user_queries.lock_holder(seen.email_key)
    user = user_queries.lock(holder.id) if holder is not None else None
    queries.lock_joined(seen)
    row = queries.take(found)
    if row is None or invited.token_id is None or not email_tokens.consume(invited.token_id):
        raise InvalidInvitation
    if holder is not None:
        return _taken_over(user, row, encoded=encoded, name=name)
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


def decline(token: str) -> uuid.UUID:
    """End an invitation because the holder of its link does not want it; return its id.

    Nobody has proved who they are: the event has no actor. Its link opens nothing any more.

    Args:
        token: What the message brought.

    Raises:
        InvalidInvitation: It opens nothing; or not any more at this moment.
    """
    row = queries.opened(token)
    if row is None:
        raise InvalidInvitation
    queries.lock_joined(row)
    unanswered = Invitation.objects.filter(pk=row.pk, token_id=row.token_id, accepted_at=None, withdrawn_at=None)
    if unanswered.select_for_update(of=("self",)).first() is None:  # locked: it may be accepted at this moment
        raise InvalidInvitation
    queries.end(unanswered)
    facts = {"invitation": str(row.pk)}
    if row.organization_id is None:
        audit.record(Event.INVITATION_DECLINED, details=facts)
    else:
        audit.record(Event.MEMBER_INVITATION_DECLINED, details={"organization": str(row.organization_id), **facts})
    return row.pk


def _taken_over(user: User | None, row: Invitation, *, encoded: str, name: str) -> UserOut:
    """Make the account with the invited address, which nobody has proved, the invited person's; it is locked."""
    if user is None or not _may_start_clean(user.is_active, user.email_verified_at):
        raise EmailTaken
    changes = {"email": row.email, "name": name, "language": row.language, **terms.kept()}
    for field, value in changes.items():
        setattr(user, field, value)
    removed = first_proof.start_clean(user, encoded=encoded, fields=changes)
    facts = {"factors_removed": True} if removed else {}
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk, facts=facts)
    throttling.forgive_account(email=user.email, user_id=user.pk)
    queries.given_to(user, row, {"first_proof": True, **first_proof.details(removed)})
    return user_out(user, list(user_queries.role_names(user.pk)))


def require_may_invite(*, actor_id: uuid.UUID, roles: list[str]) -> Rights:
    """Return the caller's rights, or raise what forbids an invitation with these roles; nothing is written.

    Args:
        actor_id: The member of staff.
        roles: The names of the roles.

    Raises:
        SignUpClosed: Nobody may make an account here, with a link neither.
        PermissionDenied: The caller may not invite, or may not give one of the roles.
        ValidationFailed: (``roles``) One is unknown.
    """
    rights = rights_of(actor_id)
    rights.require(ADD_INVITATIONS)
    if rights.is_machine and roles:
        raise PermissionDenied(NO_ROLES)
    require_grantable(rights, access_roles.named(roles))
    if settings.IRONAUTH_SIGN_UP == "closed":
        raise SignUpClosed("Sign-up is closed (IRONAUTH_SIGN_UP): an invitation would open nothing.")
    return rights


def invite(*, actor_id: uuid.UUID, values: Mapping[str, Any]) -> InvitationOut:
    """Store an invitation and queue its message. Whether anybody has the address is not looked at.

    An invitation to the address that has expired is withdrawn.

    Args:
        actor_id: The member of staff.
        values: The fields of ``InvitationInput``.

    Raises:
        IntegrityError: One waits for an answer.
        ValidationFailed: (``client``) There is no such application to continue to.
        DomainError: What ``require_may_invite`` raises.
    """
    roles = sorted(set(values["roles"]))
    rights = require_may_invite(actor_id=actor_id, roles=roles)
    client = continuing.require(values.get("client", ""))
    now, key = clock.now(), emails.fold(values["email"])
    waiting = Invitation.objects.filter(email_key=key, accepted_at=None, withdrawn_at=None, organization=None)
    waiting.filter(expires_at__lte=now).update(withdrawn_at=now)
    row = Invitation(
        id=new_id(),
        email=values["email"],
        email_key=key,
        name=values["name"],
        language=values["language"],
        roles=roles,
        client=client,
        invited_by_id=None if rights.is_machine else actor_id,
        created_at=now,
    )
    queries.send(row, create=True)
    audit.record(Event.INVITATION_MADE, actor_id=actor_id, details={"invitation": str(row.pk), "roles": roles})
    return invitation_out(row)


def address_of(*, actor_id: uuid.UUID, invitation_id: uuid.UUID) -> str:
    """Return where another message would go.

    Args:
        actor_id: The member of staff.
        invitation_id: The invitation.

    Raises:
        NotFound: None with this id waits for an answer; an expired one does.
        PermissionDenied: The caller may not invite.
        SignUpClosed: As above.
    """
    require_may_invite(actor_id=actor_id, roles=[])
    row = Invitation.objects.filter(pk=invitation_id, accepted_at=None, withdrawn_at=None).first()
    if row is None or queries.dead([row]):
        raise NotFound(queries.NO_INVITATION)
    return row.email


def send_again(*, actor_id: uuid.UUID, invitation_id: uuid.UUID) -> InvitationOut:
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
    if queries.dead([row]):
        raise NotFound(queries.NO_INVITATION)
    if row.token_id is not None:
        EmailToken.objects.filter(pk=row.token_id).delete()  # with the message that waits to be sent
    queries.send(row)
    audit.record(Event.INVITATION_SENT_AGAIN, actor_id=actor_id, details={"invitation": str(row.pk)})
    return invitation_out(row)


def withdraw(*, actor_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    """End an invitation: its link opens nothing, and a message that waits is not sent.

    Also one of an organisation whose maker may not invite so any more: it ends, before they might again.

    Args:
        actor_id: The member of staff.
        invitation_id: The invitation.

    Raises:
        NotFound: None with this id waits for an answer.
        PermissionDenied: The caller may not do it.
    """
    rights_of(actor_id).require(DELETE_INVITATIONS)
    row = _locked(invitation_id)
    queries.end(Invitation.objects.filter(pk=row.pk))
    audit.record(Event.INVITATION_WITHDRAWN, actor_id=actor_id, details={"invitation": str(row.pk)})


def _locked(invitation_id: uuid.UUID) -> Invitation:
    """Return an invitation that nobody has answered, locked; it may be ``dead``. Raises ``NotFound``."""
    unanswered = Invitation.objects.filter(accepted_at=None, withdrawn_at=None)
    row = unanswered.select_for_update(of=("self",)).filter(pk=invitation_id).first()
    if row is None:
        raise NotFound(queries.NO_INVITATION)
    return row
