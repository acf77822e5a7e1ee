"""What the API says about registered APIs."""

import uuid
from datetime import datetime

import msgspec


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
