"""The providers in use, as pages and sign-ins see them: one copy in memory, read again when one is changed."""

from typing import Final, NamedTuple
from uuid import UUID

from accounts.federation.kinds.kind import ProviderKind
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import unsealed
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.upstream import discovery


class Provider(NamedTuple):
    """An enabled provider."""

    id: UUID
    slug: str
    name: str
    kind: ProviderKind
    issuer: str
    client_id: str
    secret: str
    domains: tuple[str, ...]
    second_factors: frozenset[str] = frozenset()
    more_scopes: tuple[str, ...] = ()
    keep_tokens: bool = False

    @property
    def scope(self) -> str:
        """What is asked for at the provider; each scope once."""
        return " ".join(dict.fromkeys((*self.kind.scope.split(), *self.more_scopes)))


class _Copy:
    """The providers as they were read last."""

    def __init__(self) -> None:
        self.providers: tuple[Provider, ...] = ()
        self.buttons: dict[str, str] = {}
        self.is_fresh = False

    def outdated(self) -> None:
        """Note that a provider was changed. Thread-safe."""
        self.is_fresh = False


_copy: Final = _Copy()


def outdated() -> None:
    """Have the providers read again before the next page; a receiver of the invalidation feed."""
    _copy.outdated()


async def refresh() -> None:
    """Read the providers again where one was changed; no query otherwise. Without the database the copy stays."""
    if _copy.is_fresh:
        return
    _copy.is_fresh = True  # before the query: a change meanwhile makes it old again
    try:
        found = await database().read(_read)
    except Unavailable:
        _copy.outdated()
        return
    _copy.providers = found
    _copy.buttons = {one.slug: one.name for one in found}
    discovery.forget()


def buttons() -> dict[str, str]:
    """Return what the pages show: names by short name."""
    return _copy.buttons


def by_slug(slug: str) -> Provider | None:
    """Return an enabled provider."""
    return next((one for one in _copy.providers if one.slug == slug), None)


def of_address(email: str) -> Provider | None:
    """Return the provider that runs the mailboxes of an address's domain."""
    domain = email.rpartition("@")[2].lower()
    return next((one for one in _copy.providers if domain and domain in one.domains), None)


def wanted(name: str, login_hint: str) -> Provider | None:
    """Return the provider that an address names, or that runs the mailboxes of the hinted domain; usually none.

    Args:
        name: The short name of a provider, "" for none.
        login_hint: The address that the application expects, "" for none.
    """
    return by_slug(name) if name else of_address(login_hint)


def _read() -> tuple[Provider, ...]:
    """Return the enabled providers, without one whose secret does not open: it is logged. A unit of work, 1 query."""
    return tuple(filter(None, map(of_row, UpstreamProvider.objects.filter(enabled=True))))


def of_row(row: UpstreamProvider) -> Provider | None:
    """Return a provider as a sign-in takes it; None, which is logged, where its secret does not open.

    Args:
        row: The provider, which need not be enabled.
    """
    try:
        secret = unsealed(row)
    except (MasterKeyMissingError, SealBrokenError) as error:
        get_logger().error("upstream_secret_unreadable", provider=row.slug, cause=type(error).__name__)
        return None
    if (kind := KINDS.get(row.kind)) is None:
        return None
    domains = tuple(str(one).lower() for one in row.domains)
    return Provider(
        row.pk,
        row.slug,
        row.name,
        kind,
        kind.issuer or row.issuer,
        row.client_id,
        secret,
        domains,
        frozenset(map(str, row.second_factors)),
        tuple(map(str, row.more_scopes)),
        row.keep_tokens,
    )
