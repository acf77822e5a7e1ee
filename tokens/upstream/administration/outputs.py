"""What the API says about sign-in providers; their secrets are in no answer."""

import uuid
from datetime import datetime

import msgspec

from accounts.federation.models import UpstreamProvider
from tokens.upstream import answers


class SignInProviderOut(msgspec.Struct, frozen=True):
    """A sign-in provider. ``redirect_uri`` and ``logout_uri`` are registered there."""

    id: uuid.UUID
    slug: str
    name: str
    kind: str
    issuer: str
    client_id: str
    enabled: bool
    creates_accounts: bool
    trusts_email: bool
    domains: tuple[str, ...]
    second_factors: tuple[str, ...]
    updates_name: bool
    more_scopes: tuple[str, ...]
    keep_tokens: bool
    redirect_uri: str
    logout_uri: str
    created_at: datetime


class TrialOut(msgspec.Struct, frozen=True):
    """What a provider answers now. ``answers``: null for a kind that has no document to ask for; ``keys``: how many."""

    answers: bool | None
    keys: int
    detail: str


def provider_out(row: UpstreamProvider) -> SignInProviderOut:
    """Return a provider as it leaves."""
    address = answers.redirect_uri(row.slug)
    return SignInProviderOut(
        id=row.pk,
        slug=row.slug,
        name=row.name,
        kind=row.kind,
        issuer=row.issuer,
        client_id=row.client_id,
        enabled=row.enabled,
        creates_accounts=row.creates_accounts,
        trusts_email=row.trusts_email,
        domains=tuple(row.domains),
        second_factors=tuple(row.second_factors),
        updates_name=row.updates_name,
        more_scopes=tuple(row.more_scopes),
        keep_tokens=row.keep_tokens,
        redirect_uri=address,
        logout_uri=f"{address}/logout",
        created_at=row.created_at,
    )
