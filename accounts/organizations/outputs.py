"""What the API says about organisations; the field order is the contract's."""

import uuid
from datetime import datetime
from typing import NamedTuple

import msgspec


class MembershipRow(NamedTuple):
    """One membership, as other rooms read it. ``since``: when it began."""

    organization_id: uuid.UUID
    name: str
    slug: str
    role: str
    since: datetime


class OwnOrganizationOut(msgspec.Struct, frozen=True):
    """An organisation, as one of its members sees it, with the role they have there."""

    id: uuid.UUID
    name: str
    slug: str
    role: str
    since: datetime


class MemberOut(msgspec.Struct, frozen=True):
    """One member of an organisation; ``id`` is the person's."""

    id: uuid.UUID
    email: str
    name: str
    role: str
    since: datetime


class MemberPage(msgspec.Struct, frozen=True):
    """One page of members; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[MemberOut, ...]
    next: str | None
    previous: str | None


class OrganizationInvitationOut(msgspec.Struct, frozen=True):
    """An invitation to an organisation that waits for an answer. ``invited_by``: null where that account is gone."""

    id: uuid.UUID
    email: str
    role: str
    invited_by: uuid.UUID | None
    created_at: datetime
    expires_at: datetime


class OrganizationOut(msgspec.Struct, frozen=True):
    """An organisation, as staff see it. ``members``: how many there are."""

    id: uuid.UUID
    name: str
    slug: str
    members: int
    created_at: datetime


class OrganizationPage(msgspec.Struct, frozen=True):
    """One page of organisations; ``next`` and ``previous`` are addresses, null at the ends."""

    results: tuple[OrganizationOut, ...]
    next: str | None
    previous: str | None


def own_out(row: MembershipRow) -> OwnOrganizationOut:
    """Return a membership as it leaves."""
    return OwnOrganizationOut(row.organization_id, row.name, row.slug, row.role, row.since)
