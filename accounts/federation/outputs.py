"""What a person sees of their identities at other providers; part of the HTTP contract."""

from datetime import datetime
from uuid import UUID

import msgspec


class ProviderOut(msgspec.Struct, frozen=True):
    """A provider that people may sign in with: its short name, and what its button says."""

    slug: str
    name: str


class KeptOut(msgspec.Struct, frozen=True):
    """Access to the person's account at a provider that is kept here, for services of this one's operator.

    ``scope``: what it is for, as the provider says. ``expires_at``: the end of the access token, null where it is not
    known; ``renews``: whether the provider gives another one then.
    """

    scope: str
    kept_at: datetime
    expires_at: datetime | None
    renews: bool


class IdentityOut(msgspec.Struct, frozen=True):
    """Who the person is at a provider; ``email`` is what the provider said last, and opens nothing.

    ``kept``: null where no access to the person's account there is kept.
    """

    id: UUID
    provider: ProviderOut
    email: str
    created_at: datetime
    last_used_at: datetime
    kept: KeptOut | None = None


class IdentitiesOut(msgspec.Struct, frozen=True):
    """A person's identities, and the providers of which they have none yet."""

    identities: tuple[IdentityOut, ...]
    providers: tuple[ProviderOut, ...]


class ConnectOut(msgspec.Struct, frozen=True):
    """Where the browser goes to connect an identity."""

    url: str
