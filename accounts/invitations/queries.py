"""What units of any room ask and write about invitations, inside their transaction."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop as _

from accounts.access import roles as access_roles
from accounts.access.rights import ADD_USERS, CHANGE_USERS, Rights, rights_of_user
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.invitations.models import Invitation
from accounts.invitations.outputs import InvitationOut, invitation_out
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import PermissionDenied

#: The only order there is of the list; part of each cursor.
ORDERING: Final = "invitation -created_at"
#: Days for which staff see an invitation that nobody has accepted, after its end.
KEEP: Final = timedelta(days=30)
NO_INVITATION: Final = _("There is no invitation with this id that waits for an answer.")
#: Either lets staff give roles; which ones depends on what these grant.
GIVES_ROLES: Final = (ADD_USERS, CHANGE_USERS)


class Joining(NamedTuple):
    """What the room of organisations does about invitations to one.

    Attributes:
        stands: Returns the condition of those that may still be accepted, as ``standing`` judges them.
        standing: Returns those that may still be accepted: who made them may still invite with their roles.
        lock: Locks the organisation of one until the transaction ends. Whatever ends invitations of an organisation
            does it first, then the invitation is locked, then its token. A person is locked before.
        join: Makes somebody a member, or raises what forbids it.
    """

    stands: Callable[[], Q]
    standing: Callable[[Iterable[Invitation]], list[Invitation]]
    lock: Callable[[Invitation], None]
    join: Callable[[User, Invitation], None]


_joining: list[Joining] = []


def register_joining(joining: Joining) -> None:
    """Have invitations to organisations judged and accepted by ``joining``."""
    _joining[:] = [joining]


def opened(token: str) -> Invitation | None:
    """Return the invitation that waits and whose link has this token. Two queries at most; of an organisation three.

    Args:
        token: What the message brought.
    """
    token_id = email_tokens.find_without_user(token, Purpose.INVITATION)
    if token_id is None:
        return None
    row = waiting(clock.now()).select_related("organization").filter(token_id=token_id).first()
    return row if row is not None and _stands(row) else None


def dead(rows: Iterable[Invitation]) -> set[uuid.UUID]:
    """Return which of these open nothing any more because who made them may not invite so. One query, or none.

    Args:
        rows: Invitations that wait for an answer; those of staff are never among the answer.
    """
    of_organizations = [row for row in rows if row.organization_id is not None]
    standing = {row.pk for one in _joining if of_organizations for row in one.standing(of_organizations)}
    return {row.pk for row in of_organizations} - standing


def living() -> Q:
    """Return the condition of invitations that are not ``dead``, for querysets: of staff, or still standing."""
    found = Q(organization=None)
    for one in _joining:
        found |= Q(organization__isnull=False) & one.stands()
    return found


def _stands(row: Invitation) -> bool:
    return not dead([row])


def lock_joined(row: Invitation) -> None:
    """Lock what the person of an invitation becomes a member of, before the invitation itself is locked.

    Args:
        row: The invitation; nothing is locked for one of staff.

    Raises:
        InvalidInvitation: The organisation is gone.
    """
    for one in _joining if row.organization_id is not None else ():
        one.lock(row)


def _standing(found: QuerySet[Invitation]) -> Invitation | None:
    """Return the first invitation that may still be accepted: that of staff, else the oldest of an organisation."""
    of_staff = found.filter(organization=None).first()
    if of_staff is not None:
        return of_staff
    return found.filter(living(), organization__isnull=False).order_by("pk").first()


def send(row: Invitation, *, create: bool = False) -> None:
    """Issue the token of a message, store it with the invitation, and queue the message.

    Args:
        row: The invitation.
        create: Whether it is a new one.
    """
    row.expires_at = clock.now() + timedelta(days=settings.IRONAUTH_INVITATION_TTL)
    row.token_id = email_tokens.issue(purpose=Purpose.INVITATION, user_id=None, expires_at=row.expires_at)
    row.save(force_insert=create)
    facts = {"language": row.language} if row.language else None
    kind = Kind.INVITATION if row.organization_id is None else Kind.ORGANIZATION_INVITATION
    outbox.enqueue(kind, recipient=row.email, token_id=row.token_id, facts=facts)


def use(row: Invitation) -> bool:
    """Use up an invitation with its link; of several who try at once one gets it.

    Args:
        row: The invitation, as ``opened`` has found it.
    """
    taken = take(waiting(clock.now()).filter(pk=row.pk, token_id=row.token_id))
    return taken is not None and row.token_id is not None and email_tokens.consume(row.token_id)


def end(rows: QuerySet[Invitation]) -> int:
    """Withdraw invitations that nobody has answered; return how many. Their links open nothing from now on.

    Args:
        rows: Which; of those that are answered none is touched.
    """
    found = rows.filter(accepted_at=None, withdrawn_at=None)
    ended = dict(found.values_list("pk", "token_id"))
    Invitation.objects.filter(pk__in=ended).update(withdrawn_at=clock.now(), token=None)
    EmailToken.objects.filter(pk__in=[one for one in ended.values() if one is not None]).delete()
    return len(ended)


def waits_for(key: str) -> bool:
    """Tell whether an invitation to this folded address may be accepted. Two queries at most."""
    return _standing(waiting(clock.now()).filter(email_key=key)) is not None


def accept_elsewhere(user: User, provider: str) -> bool:
    """Use up the invitation to the proved address of an account that another provider's sign-in makes now.

    Args:
        user: The account, stored in this transaction.
        provider: The short name of the provider, for the trail.

    Returns:
        Whether there was one. Then its roles are given, and this is in the trail. One of an organisation counts where
        nobody may sign up without an invitation.
    """
    found = waiting(clock.now()).filter(email_key=user.email_key)
    row = take(found.filter(organization=None))
    if row is None and settings.IRONAUTH_SIGN_UP == "invitation":  # else the person chooses what to be a member of
        first = _standing(found)
        if first is not None:
            lock_joined(first)
            row = take(found.filter(pk=first.pk))
    if row is None:
        return False
    if row.token_id is not None:
        email_tokens.consume(row.token_id)
    given_to(user, row, {"provider": provider})
    return True


def purge(*, batch: int) -> int:
    """Delete at most ``batch`` invitations that nobody accepted and that ended ``KEEP`` ago; return how many."""
    old = Invitation.objects.filter(user=None, expires_at__lt=clock.now() - KEEP).order_by("pk")
    ids = list(old.values_list("pk", flat=True)[:batch])
    return Invitation.objects.filter(pk__in=ids)._raw_delete(DEFAULT_DB_ALIAS) if ids else 0  # noqa: SLF001 - nothing hangs on one


def page(filters: Mapping[str, Any]) -> Page[InvitationOut]:
    """Return one page, the newest first; ``filters`` are those of ``InvitationListInput``. One query."""
    return paging.newest_first(
        Invitation.objects.all(),
        filters,
        ordering=ORDERING,
        show=_shown,
        id_of=lambda invitation: invitation.id,
    )


def _shown(rows: Iterable[Invitation]) -> list[InvitationOut]:
    found = list(rows)
    over = dead(row for row in found if row.accepted_at is None and row.withdrawn_at is None)
    return [invitation_out(row, is_dead=row.pk in over) for row in found]


def waiting(now: datetime) -> QuerySet[Invitation]:
    """Return the invitations that wait for an answer and have not expired; none of organisations without those."""
    found = Invitation.objects.filter(accepted_at=None, withdrawn_at=None, expires_at__gt=now)
    return found.filter(organization=None) if settings.IRONAUTH_ORGANIZATIONS == "off" else found


def take(found: QuerySet[Invitation]) -> Invitation | None:
    """Mark the only invitation of ``found`` as accepted and return it; of several who try at once one gets it."""
    row = found.first()
    if row is None or not found.filter(pk=row.pk).update(accepted_at=clock.now()):
        return None
    return row


def given_to(
    user: User, row: Invitation, details: dict[str, object], event: Event = Event.INVITATION_ACCEPTED
) -> list[str]:
    """Note whose invitation it was, give the roles, and leave it in the trail; return the names of the roles.

    Args:
        user: The account, stored in this transaction.
        row: The invitation, taken in this transaction.
        details: What else the trail says.
        event: What the trail calls it.

    Raises:
        DomainError: It is to an organisation, and the person cannot become a member.
    """
    Invitation.objects.filter(pk=row.pk).update(user_id=user.pk, token=None)
    given = [role for role in access_roles.known(row.roles) if _may_still_give(row, (role,))]
    for role in given:
        user_queries.give_role(user.pk, role.pk)
    given_names = [role.name for role in given]
    left_out = sorted(set(row.roles) - set(given_names))
    facts = {**details, "invitation": str(row.pk), "roles": given_names, "roles_left_out": left_out}
    if row.organization_id is not None:
        for one in _joining:
            one.join(user, row)
        facts |= {"organization": str(row.organization_id), "organization_role": row.organization_role}
    audit.record(event, actor_id=user.pk, user_id=user.pk, details=facts)
    return given_names


def _may_still_give(row: Invitation, roles: Iterable[Group]) -> bool:
    """Tell whether the inviting person could give these roles now: rights taken away since are not passed on."""
    inviter = user_queries.find(row.invited_by_id) if row.invited_by_id else None
    if inviter is None or not inviter.is_active:
        return False
    try:
        require_grantable(rights_of_user(inviter), roles)
    except PermissionDenied:
        return False
    return True


def require_grantable(rights: Rights, roles: Iterable[Group]) -> None:
    """Do nothing where ``rights`` include giving all these roles.

    Args:
        rights: Those of a member of staff.
        roles: The roles, with their permissions.

    Raises:
        PermissionDenied: They do not.
    """
    chosen = list(roles)
    if chosen and not any(rights.holds(permission) for permission in GIVES_ROLES):
        rights.require(GIVES_ROLES[-1])
    rights.require_grantable(chosen)
