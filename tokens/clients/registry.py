"""Clients as requests see them: an immutable snapshot, kept in memory until the client is changed.

The snapshot is at most as old as a revocation may be (``IRONAUTH_L1_MAX_STALE_S``): a disabled client is refused as
soon as a revoked session is.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

import msgspec
from django.db.models import Q

from accounts.lockout import rate_limits
from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from tokens.clients.errors import InvalidScope
from tokens.clients.models import OAuthClient, OAuthClientSecret, client_tag
from tokens.clients.profiles import PROFILES, Profile
from tokens.keys import pairwise
from tokens.protocol import is_scope, scope_set, scope_text
from tokens.resources import queries as resource_queries
from tokens.resources.models import SELF_REGISTERED_TAG

CACHE_PREFIX = "oc:"
KEEP_S = 300.0  # seconds; a change is heard of long before
UUID_CHARACTERS = 36
DOCUMENTS = "https://"  # how the name of a client begins that its own document describes
#: What finds such clients: the room of documents registers it, which stands above this one.
_finders: "list[Callable[[str], Awaitable[Client | None]]]" = []
MAX_NAMED = 64  # characters of a scope that a refusal repeats; no client has a longer one


class ClientSecret(msgspec.Struct, frozen=True):
    """One secret: the SHA-256 of it in hexadecimal, and its end in unix seconds, if it has one."""

    digest: str
    expires_at: float | None


class Client(msgspec.Struct, frozen=True):
    """An enabled client; lists as tuples, lifetimes in seconds or None for the settings' own.

    Attributes:
        client_id: The text of the row's id, by which everything here knows it; ``public_id`` is what others call it.
        sector_key: What makes the ``sub`` of a pairwise client's people (``subjects``), empty for a public one.
        unverified: Made by a stranger, and nobody of staff has looked at it.
        by_staff: Made by staff; what a stranger has made stays a stranger's when staff have looked at it.
        api_scopes: Scopes of APIs that are open to clients which staff have not made, good at those alone.
        stored: Whether there is a row; not before somebody has allowed a client something that its document describes.
    """

    client_id: str
    name: str
    profile: str
    auth_method: str
    redirect_uris: tuple[str, ...]
    post_logout_redirect_uris: tuple[str, ...]
    backchannel_logout_uri: str
    initiate_login_uri: str
    grants: frozenset[str]
    scopes: frozenset[str]
    strict_scopes: bool
    trusted: bool
    require_pkce: bool
    require_par: bool
    resource_server: bool
    administers: bool
    resources: tuple[str, ...]
    serves: tuple[str, ...]
    dpop: str
    certificate_bound: bool
    subject_type: str
    sector: str
    sector_key: bytes
    id_token_alg: str
    access_token_alg: str
    id_token_claims: bool
    request_object_signing_alg: str
    authorization_signed_response_alg: str
    tls_client_auth_subject_dn: str
    jwks: Mapping[str, Any] | None
    access_token_s: int | None
    session_idle_s: int | None
    session_absolute_s: int | None
    secrets: tuple[ClientSecret, ...]
    unverified: bool = False
    by_staff: bool = False
    document_url: str = ""
    api_scopes: frozenset[str] = frozenset()
    stored: bool = True
    jwks_uri: str = ""
    request_uris: tuple[str, ...] = ()
    userinfo_signed_response_alg: str = ""
    logo_uri: str = ""
    policy_uri: str = ""
    tos_uri: str = ""
    authorization_details_types: frozenset[str] = frozenset()

    @property
    def id(self) -> UUID:
        """The row's id."""
        return cast("UUID", _uuid(self.client_id))

    @property
    def is_public(self) -> bool:
        """Whether it can keep no secret."""
        return self.auth_method == OAuthClient.AuthMethod.NONE

    @property
    def signs_requests(self) -> bool:
        """Whether it sends signed request objects, or has to (RFC 9101)."""
        return bool(self.request_object_signing_alg) or self.rules.signed_requests

    @property
    def public_id(self) -> str:
        """The ``client_id`` as it stands in requests, ID tokens and assertions."""
        return self.document_url or self.client_id

    @property
    def logo_mark(self) -> str:
        """What tells the address of its logo from others, in the address of our copy; "" without a logo."""
        return sha256(self.logo_uri.encode()).hexdigest()[:16] if self.logo_uri else ""

    @property
    def rules(self) -> Profile:
        """What its profile demands of its requests."""
        return PROFILES[self.profile]

    def grace_s(self, *, proved: bool = False) -> int:
        """Return for how many seconds a former refresh token of it works, where the setting says less.

        What its profile says is for tokens that are bound to a key: a thief of another one is found out sooner.

        Args:
            proved: Whether a key, or a certificate, was shown. A client that always has to is taken at its word.
        """
        bound = proved or self.certificate_bound or self.dpop == OAuthClient.Policy.REQUIRED
        return self.rules.grace_s if bound else 0

    def may_have(self, scope: str) -> bool:
        """Return whether every scope of this text is one that the client may have, at whichever API."""
        return scope_set(scope) <= self.scopes | self.api_scopes

    def allowed_of(self, scope: str) -> str:
        """Return what staff let the client have of a scope that was granted before they took some of it."""
        return scope_text(scope_set(scope) & (self.scopes | self.api_scopes))

    def granted_here(self, asked: str) -> str:
        """Return what is granted of a scope for this server's own audience.

        There is no default: what a client wants, it says. Agents do not know scopes of APIs that they meet for the
        first time: one that names none asks for all it may have, and the consent page lists that.

        Args:
            asked: The parameter as it was received, "" for none.

        Raises:
            InvalidScope: None, a malformed one, and as ``granted_of``.
        """
        if not asked and self.rules.default_scope:
            asked = scope_text(self.scopes)
        if not asked:
            raise InvalidScope("scope is missing: name what the application needs, for instance openid.")
        if not is_scope(asked):
            raise InvalidScope
        return self.granted_of(asked)

    def granted_of(self, asked: str, allowed: frozenset[str] | None = None) -> str:
        """Return what is granted of a scope that is asked for now; the rest is ignored (RFC 6749 §3.3).

        Args:
            asked: The parameter as it was received.
            allowed: What may be granted; None for all that staff let the client have.

        Raises:
            InvalidScope: Nothing is left, or the text is malformed. Of a strict client every scope has to be allowed,
                and the refusal names the first one that is not.
        """
        wanted, allowed = scope_set(asked), self.scopes if allowed is None else allowed
        if not is_scope(scope_text(wanted)) or not wanted & allowed:
            raise InvalidScope
        if self.strict_scopes and not wanted <= allowed:
            raise InvalidScope(f"This client may not have the scope {min(wanted - allowed)[:MAX_NAMED]}.")
        return scope_text(wanted & allowed)


class _Found(msgspec.Struct, frozen=True):
    """What a lookup found: nothing, too, is worth remembering for a moment."""

    client: Client | None


async def find(client_id: str) -> Client | None:
    """Return the enabled client of this id, None for any other text.

    2 queries, one more for a pairwise client and for one that registered itself, none when it is known already.
    """
    parsed = _uuid(client_id)
    if parsed is None:
        return None
    tag = client_tag(client_id)

    async def load() -> "Loaded[_Found]":  # in quotes: made anew in each call, it took 12 µs
        client = await database().read(read_client, parsed)
        # Not for Redis: the key that pairwise subjects are made with.
        return Loaded(_Found(client), tags, clock.unix() + KEEP_S, absent=client is None, secret=True)

    tags = (tag, SELF_REGISTERED_TAG)
    found = await token_cache().fetch(f"{CACHE_PREFIX}{client_id}", load, _Found, tags=tags, asked=True)
    return found.client


def known(client_id: str) -> Client | None:
    """Return what `find` would of a client this process has asked for and may still trust; no I/O.

    The very same object as long as nothing is known to have changed.
    """
    found = token_cache().peek(f"{CACHE_PREFIX}{client_id}")
    return found.client if isinstance(found, _Found) else None


async def find_named(client_id: str) -> Client | None:
    """Return the client that a request names so; None for any other text.

    A client that its own document describes has the address of that as its name, and no other.

    Args:
        client_id: As it was received.

    Raises:
        Throttled: Too many documents were fetched for the network that the request comes from.
    """
    if client_id.startswith(DOCUMENTS):
        return await _finders[0](client_id) if _finders else None
    return _by_its_own_name(await find(client_id))


def _by_its_own_name(client: Client | None) -> Client | None:
    return None if client is None or client.document_url else client


def register_documents(find_described: Callable[[str], Awaitable[Client | None]]) -> None:
    """Have clients with an address as their name found by ``find_described``; called when the application is ready."""
    _finders[:] = [find_described]


async def find_for_stranger(client_id: str) -> Client | None:
    """Return what `find_named` returns, for a request of somebody who has proved nothing.

    Each id that names no client counts for the network the request comes from. One more query then, with Redis none.

    Raises:
        Throttled: When too many such ids came from there; an id of a client is never refused.
    """
    return await _or_counted(await find_named(client_id), client_id)


async def find_shown_to_stranger(client_id: str) -> Client | None:
    """Return what `find` returns, for a request of somebody who has proved nothing; see `find_for_stranger`.

    Raises:
        Throttled: As there.
    """
    return await _or_counted(await find(client_id), client_id)


async def _or_counted(client: Client | None, client_id: str) -> Client | None:
    if client is None and _uuid(client_id) is not None:
        await rate_limits.admit(rate_limits.UNKNOWN_CLIENT, address=client_context.current().address)
    return client


async def find_anew(client_id: str) -> Client | None:
    """Return what the database says of a client that a request names so, and remember nothing.

    2 queries, 3 for a pairwise client; None for one that its own document describes.
    """
    parsed = _uuid(client_id)
    return _by_its_own_name(await database().read(read_client, parsed)) if parsed is not None else None


def read_client(client_id: UUID) -> Client | None:
    """Return the enabled client of this id, if there is one; a unit of work, 2 queries, 3 for a pairwise one."""
    row = OAuthClient.objects.filter(pk=client_id, disabled_at=None).first()
    if row is None:
        return None
    usable = OAuthClientSecret.objects.filter(Q(expires_at=None) | Q(expires_at__gt=clock.now()), client_id=client_id)
    return snapshot(row, usable)


def snapshot(row: OAuthClient, secrets: Iterable[OAuthClientSecret] = ()) -> Client:
    """Return a client as requests see it. No query, 1 for a pairwise one, 1 for one that staff have not made.

    Args:
        row: The client, stored or not.
        secrets: Those it has in use.
    """
    return Client(
        client_id=str(row.pk),
        name=row.name,
        profile=row.profile,
        auth_method=row.auth_method,
        redirect_uris=tuple(row.redirect_uris),
        post_logout_redirect_uris=tuple(row.post_logout_redirect_uris),
        backchannel_logout_uri=row.backchannel_logout_uri,
        initiate_login_uri=row.initiate_login_uri,
        grants=frozenset(row.grants),
        scopes=frozenset(row.scopes),
        strict_scopes=row.strict_scopes,
        trusted=row.trusted and not row.is_unverified,  # what it has become since, nobody has looked at
        require_pkce=row.require_pkce,
        require_par=row.require_par,
        resource_server=row.resource_server,
        administers=row.administers,
        resources=tuple(row.resources),
        serves=tuple(row.serves),
        dpop=row.dpop,
        certificate_bound=row.certificate_bound,
        subject_type=row.subject_type,
        sector=row.sector,
        sector_key=pairwise.sector_key(row.sector or str(row.pk)) if row.is_pairwise else b"",
        id_token_alg=row.id_token_alg,
        access_token_alg=row.access_token_alg,
        id_token_claims=row.id_token_claims,
        request_object_signing_alg=row.request_object_signing_alg,
        authorization_signed_response_alg=row.authorization_signed_response_alg,
        tls_client_auth_subject_dn=row.tls_client_auth_subject_dn,
        jwks=row.jwks,
        access_token_s=row.access_token_s,
        session_idle_s=row.session_idle_s,
        session_absolute_s=row.session_absolute_s,
        secrets=tuple(
            ClientSecret(secret.digest, secret.expires_at.timestamp() if secret.expires_at else None)
            for secret in secrets
        ),
        unverified=row.is_unverified,
        by_staff=row.by_staff,
        document_url=row.document_url,
        api_scopes=frozenset() if row.by_staff else resource_queries.open_to_self_registered(),
        stored=not row._state.adding,  # noqa: SLF001 - documented by Django
        jwks_uri=row.jwks_uri,
        request_uris=tuple(row.request_uris),
        userinfo_signed_response_alg=row.userinfo_signed_response_alg,
        logo_uri=row.logo_uri,
        policy_uri=row.policy_uri,
        tos_uri=row.tos_uri,
        authorization_details_types=frozenset(row.authorization_details_types),
    )


def _uuid(text: str) -> UUID | None:
    """Return the id that ``text`` spells canonically, None for any other text: one client, one spelling."""
    return _parsed(text) if len(text) == UUID_CHARACTERS else None


@lru_cache(maxsize=1_024)  # asked seven times in a sign-in, of a few clients
def _parsed(text: str) -> UUID | None:
    try:
        parsed = UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text else None
