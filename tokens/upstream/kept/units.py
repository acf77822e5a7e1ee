"""Units of work on access that is kept: synchronous, one transaction each."""

from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from django.db.models import Q, QuerySet

from accounts.access.rights import rights_of
from accounts.access.scopes import USE_PROVIDER_TOKENS
from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.federation import kept_tokens
from accounts.federation.kept_tokens import Client, Tokens
from accounts.federation.models import KeptTokens, UpstreamProvider
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.upstream.kept.errors import NoUpstreamToken

#: Seconds for which one asks the provider, and nobody else does; also after a failure, so that a provider that is down
#: is asked so often at most. Longer than an answer may take (``exchange.LIMIT_S``).
LEASE_S: Final = 15


class Held(NamedTuple):
    """Tokens of a person at a provider, and the row as it was read.

    ``is_fresh``: the access token still works. ``client``: ours at the provider when this was read.
    """

    identity_id: UUID
    user_id: UUID
    sealed: bytes
    tokens: Tokens
    subject: str
    is_fresh: bool
    client: Client


def take(*, actor_id: UUID | None, user_id: UUID, slug: str, early_s: int) -> Held:
    """Return a person's tokens at a provider; where the access token still works, it is handed out: with an event.

    Args:
        actor_id: The machine that gets it; None for a call from the same process.
        user_id: The person.
        slug: The provider's short name.
        early_s: Seconds for which the access token has to be good.

    Raises:
        PermissionDenied: The caller is no machine, may not do this, or lacks a right that the person has.
        NotFound: There is no such person, or no provider of this name that is switched on and keeps tokens.
        NoUpstreamToken: None are kept, they do not open, or the account is not active.
    """
    user = _person(actor_id, user_id)
    # Before the tokens: those of another client are deleted with the change, and are not found after it.
    provider = UpstreamProvider.objects.filter(slug=slug, enabled=True, keep_tokens=True).first()
    if provider is None:
        raise NotFound("There is no sign-in provider of this short name that keeps tokens.")
    row = (
        KeptTokens.objects.select_related("identity").filter(identity__user_id=user_id, provider__slug=slug).first()
        if user.is_active
        else None
    )
    if row is None:
        raise NoUpstreamToken
    try:
        tokens = kept_tokens.opened(row)
    except (MasterKeyMissingError, SealBrokenError) as error:
        get_logger().error("upstream_tokens_unreadable", identity=str(row.pk), cause=type(error).__name__)
        raise NoUpstreamToken from error
    is_fresh = not tokens.expires_at or tokens.expires_at > clock.unix() + early_s
    if is_fresh:
        details = {"provider": slug, "scope": tokens.scope}
        audit.record(Event.PROVIDER_TOKEN_GIVEN, actor_id=actor_id, user_id=user_id, details=details)
    client = kept_tokens.client_of(provider)
    return Held(row.pk, user_id, bytes(row.sealed), tokens, row.identity.subject, is_fresh, client)


def _person(actor_id: UUID | None, user_id: UUID) -> User:
    """Return the person whose tokens the caller may have."""
    rights = None if actor_id is None else rights_of(actor_id)
    if rights is not None:
        rights.require(USE_PROVIDER_TOKENS)
        if not rights.is_machine:
            raise PermissionDenied("People's tokens at providers are for machines alone: no person gets them.")
    user = user_queries.find(user_id)
    if user is None:
        raise NotFound("There is no user with this id.")
    if rights is not None:
        rights.require_all_of(user)
    return user


def claim(held: Held) -> bool:
    """Tell whether the caller is the one who asks the provider for new tokens now. One query.

    Args:
        held: The tokens as they were read.
    """
    now = clock.now()
    free = Q(refreshing_until=None) | Q(refreshing_until__lte=now)
    return _same(held).filter(free).update(refreshing_until=now + timedelta(seconds=LEASE_S)) > 0


def renew(held: Held, answered: Tokens) -> None:
    """Keep new tokens in place of those that were read; of an identity that was removed meanwhile nothing is kept.

    Args:
        held: The tokens as they were read.
        answered: What the provider has given for them. Without a refresh token, the one of before stays good.
    """
    row = _same(held).select_related("identity").first()
    if row is None:
        return
    refresh_token = answered.refresh_token or held.tokens.refresh_token
    tokens = msgspec.structs.replace(answered, refresh_token=refresh_token, given_at=held.tokens.given_at)
    _same(held).update(**kept_tokens.columns(row.identity, row.provider_id, tokens))


def drop(held: Held, *, slug: str, actor_id: UUID | None) -> None:
    """Delete tokens that the provider does not know any more, and leave an event; those given meanwhile stay.

    Args:
        held: The tokens as they were read.
        slug: The provider's short name.
        actor_id: The machine that wanted them.
    """
    if _same(held).delete()[0]:
        details = {"provider": slug, "cause": "refused_there"}
        audit.record(
            Event.PROVIDER_TOKEN_GIVEN,
            outcome=Outcome.FAILURE,
            actor_id=actor_id,
            user_id=held.user_id,
            details=details,
        )


def _same(held: Held) -> QuerySet[KeptTokens]:
    return KeptTokens.objects.filter(pk=held.identity_id, sealed=held.sealed)
