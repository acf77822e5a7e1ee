"""What the API says about registered APIs."""

import uuid
from datetime import datetime

import msgspec

from tokens.resources.models import ApiResource


class ResourceOut(msgspec.Struct, frozen=True):
    """A registered API. ``access_token_s``: null for what the client or the settings say.

    ``for_self_registered``: whether applications that registered themselves may have its scopes.
    """

    id: uuid.UUID
    identifier: str
    name: str
    scopes: tuple[str, ...]
    signing_alg: str
    access_token_s: int | None
    for_self_registered: bool
    active: bool
    created_at: datetime


def resource_out(row: ApiResource) -> ResourceOut:
    """Return an API as it leaves."""
    return ResourceOut(
        id=row.pk,
        identifier=row.identifier,
        name=row.name,
        scopes=tuple(row.scopes),
        signing_alg=row.signing_alg,
        access_token_s=row.access_token_s,
        for_self_registered=row.for_self_registered,
        active=row.active,
        created_at=row.created_at,
    )
