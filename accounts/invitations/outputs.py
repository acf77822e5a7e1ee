"""What the API says about invitations; the field order is the contract's."""

import uuid
from datetime import datetime

import msgspec

from accounts.invitations.models import Invitation
from ironauth.infrastructure.core import clock


class InvitationOut(msgspec.Struct, frozen=True):
    """An invitation, as staff see it. ``state``: waiting, accepted, withdrawn or expired.

    ``invited_by``: null where that account is gone; ``user``: the account that was made of it;
    ``client``: the application it leads to, empty for none. ``organization``: where one of its members has made it,
    and ``organization_role`` what the person becomes there.
    """

    id: uuid.UUID
    email: str
    name: str
    language: str
    roles: tuple[str, ...]
    client: str
    state: str
    invited_by: uuid.UUID | None
    user: uuid.UUID | None
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    withdrawn_at: datetime | None
    organization: uuid.UUID | None
    organization_role: str


class InvitationPage(msgspec.Struct, frozen=True):
    """One page of invitations; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[InvitationOut, ...]
    next: str | None
    previous: str | None


def invitation_out(row: Invitation, *, is_dead: bool = False) -> InvitationOut:
    """Return an invitation as it leaves.

    Args:
        row: The invitation.
        is_dead: Whether who made it may not invite so any more; then it is as good as withdrawn.
    """
    return InvitationOut(
        id=row.pk,
        email=row.email,
        name=row.name,
        language=row.language,
        roles=tuple(row.roles),
        client=row.client,
        state=row.state_at(clock.now(), is_dead=is_dead),
        invited_by=row.invited_by_id,
        user=row.user_id,
        created_at=row.created_at,
        expires_at=row.expires_at,
        accepted_at=row.accepted_at,
        withdrawn_at=row.withdrawn_at,
        organization=row.organization_id,
        organization_role=row.organization_role,
    )
