"""What units of any room ask and write about invitations, inside their transaction."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import Group
from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet

from accounts.access import roles as access_roles
from accounts.access.rights import ADD_USERS, CHANGE_USERS, Rights, rights_of_user
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.invitations.models import Invitation
from accounts.invitations.outputs import InvitationOut, invitation_out
from accounts.outbox import tokens as email_tokens
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
#: Either lets staff give roles; which ones depends on what these grant.
GIVES_ROLES: Final = (ADD_USERS, CHANGE_USERS)


def waits_for(key: str) -> bool:
    """Tell whether an invitation to this folded address waits for an answer. One query."""
    return waiting(clock.now()).filter(email_key=key).exists()


def accept_elsewhere(user: User, provider: str) -> bool:
    """Use up the invitation to the proved address of an account that another provider's sign-in makes now.

    Args:
        user: The account, stored in this transaction.
        provider: The short name of the provider, for the trail.

    Returns:
        Whether there was one. Then its roles are given, and this is in the trail.
    """
    row = take(waiting(clock.now()).filter(email_key=user.email_key))
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
        show=lambda rows: [invitation_out(row) for row in rows],
        id_of=lambda invitation: invitation.id,
    )


def waiting(now: datetime) -> QuerySet[Invitation]:
    """Return the invitations that wait for an answer and have not expired."""
    return Invitation.objects.filter(accepted_at=None, withdrawn_at=None, expires_at__gt=now)


def take(found: QuerySet[Invitation]) -> Invitation | None:
    """Mark the only invitation of ``found`` as accepted and return it; of several who try at once one gets it."""
    row = found.first()
    if row is None or not found.filter(pk=row.pk).update(accepted_at=clock.now()):
        return None
    return row


def given_to(user: User, row: Invitation, details: dict[str, object]) -> list[str]:
    """Note whose invitation it was, give the roles, and leave it in the trail; return the names of the roles.

    Args:
        user: The account, stored in this transaction.
        row: The invitation, taken in this transaction.
        details: What else the trail says.
    """
    Invitation.objects.filter(pk=row.pk).update(user_id=user.pk, token=None)
    given = [role for role in access_roles.known(row.roles) if _may_still_give(row, (role,))]
    for role in given:
        user_queries.give_role(user.pk, role.pk)
    given_names = [role.name for role in given]
    left_out = sorted(set(row.roles) - set(given_names))
    facts = {**details, "invitation": str(row.pk), "roles": given_names, "roles_left_out": left_out}
    audit.record(Event.INVITATION_ACCEPTED, actor_id=user.pk, user_id=user.pk, details=facts)
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
