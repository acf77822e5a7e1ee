"""Tokens that a provider gives for an identity: sealed at once, carried with the identity, kept with its row.

On their way they are bound to provider, issuer and subject; once kept, to the identity's row and its account too. So
tokens that are moved to another row do not open.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from django.db import connection

from accounts.federation.kinds.kind import ProviderKind, UpstreamPerson
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import URI_CHARACTERS, Identity, KeptTokens, UpstreamProvider, UpstreamSignIn
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError, newest_master_key_id, register_purpose
from ironauth.infrastructure.crypto.resealing import Resealed, reseal_rows
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.telemetry.logs import get_logger

LONGEST: Final = 16_384  # characters of one token; Entra's have some 3,000
_MOST_S: Final = 10 * 366 * 86_400  # seconds that an access token may say it is good for
_ON_THEIR_WAY: Final = register_purpose("ironauth upstream tokens on their way")
_KEPT: Final = register_purpose("ironauth upstream tokens")
_COLON: Final = b":"  # in no id of a master key
_DIGITS: Final = 12  # of a number of seconds that is told as text


class Client(NamedTuple):
    """The client that a provider knows us as: its issuer as configured, and our ID. Tokens go where they came from."""

    issuer: str
    client_id: str


def client_of(row: UpstreamProvider) -> Client:
    """Return the client that a provider knows us as by now.

    Args:
        row: The provider.
    """
    kind = KINDS.get(row.kind)
    return Client((kind.issuer if kind else "") or row.issuer, row.client_id)


class Tokens(msgspec.Struct, frozen=True):
    """A provider's tokens in clear: only in the hands of those who ask a provider with them.

    ``expires_at`` and ``given_at``: unix seconds; 0 where the provider does not say when the access token ends.
    """

    access_token: str
    refresh_token: str
    scope: str
    expires_at: int
    given_at: int

    def __repr__(self) -> str:
        """Name them without telling them: a traceback may show this."""
        return f"<tokens given at {self.given_at}>"


class _Waiting(msgspec.Struct, frozen=True):
    """Tokens on their way, with the client that they were given to."""

    tokens: Tokens
    issuer: str
    client_id: str


def told(answer: Mapping[str, Any], *, kind: ProviderKind, asked: str) -> Tokens | None:
    """Return the tokens of a token endpoint's answer (RFC 6749 §5.1); None where there is no bearer token to use.

    Args:
        answer: What the endpoint says.
        kind: Of the provider.
        asked: The scope that was asked for, which is the one that was given where the answer names none.
    """
    access, refresh = _token(answer, "access_token"), _token(answer, "refresh_token")
    type_of_token, scope = answer.get("token_type"), answer.get("scope")
    if not access or not isinstance(type_of_token, str) or type_of_token.lower() != "bearer":
        return None
    if not isinstance(scope, str) or len(scope) > URI_CHARACTERS or not scope.isprintable():
        scope = asked
    now, scopes = int(clock.unix()), scope.split(kind.scope_separator)
    return Tokens(access, refresh, " ".join(scopes), _end(answer.get("expires_in"), now), now)


def _end(life: Any, now: int) -> int:
    """Return when a token ends that is good for so many seconds; 0 where that is not said.

    Some providers say it as text. What is no such number is no long life: that token ends at once.
    """
    if life is None:
        return 0
    if isinstance(life, str) and life.isascii() and life.isdigit() and len(life) <= _DIGITS:
        life = int(life)
    if not isinstance(life, int | float) or isinstance(life, bool) or not life >= 0:
        return now
    return now + int(min(life, _MOST_S))


def _token(answer: Mapping[str, Any], name: str) -> str:
    """Return a token that can be sent in a header field; "" for anything else."""
    value = answer.get(name)
    fits = isinstance(value, str) and len(value) <= LONGEST and value.isascii() and value.isprintable()
    return value if isinstance(value, str) and fits and " " not in value else ""


def on_their_way(tokens: Tokens, *, provider_id: UUID, client: Client, person: UpstreamPerson) -> bytes:
    """Return tokens as they wait with an identity: sealed, with the id of the master key in front.

    Args:
        tokens: What the provider has just given.
        provider_id: Which provider.
        client: The one that was given them.
        person: Who it says they are for.
    """
    bound_to = _identity(provider_id, person.issuer, person.subject)
    waiting = _Waiting(tokens, client.issuer, client.client_id)
    key_id, sealed = sealing.seal(msgspec.msgpack.encode(waiting), _ON_THEIR_WAY, bound_to)
    return key_id.encode() + _COLON + sealed


def keep(identity: Identity, *, provider_id: UUID, waiting: bytes | None) -> None:
    """Keep the tokens that have come with an identity, now that it is its account's. Five queries, none for no tokens.

    Nothing is kept of a provider that is switched off, keeps none or is asked as another client by now: its row is
    locked, so that who changes it deletes what is kept here, or this finds it changed. Nor in place of tokens that were
    given later. Where a provider gives a refresh token once (Google), the one of before stays.

    Args:
        identity: Whose row they are kept with, in the caller's transaction.
        provider_id: The provider that has given them.
        waiting: What ``on_their_way`` has returned; None where there are none.
    """
    provider = None if waiting is None else _keeping(provider_id)
    if waiting is None or provider is None:
        return
    key_id, _, sealed = waiting.partition(_COLON)
    bound_to = _identity(provider_id, identity.issuer, identity.subject)
    try:
        opened_now = sealing.unseal(key_id.decode(), sealed, _ON_THEIR_WAY, bound_to)
        given = msgspec.msgpack.decode(opened_now, type=_Waiting)
    except (MasterKeyMissingError, SealBrokenError, msgspec.DecodeError) as error:
        get_logger().error("upstream_tokens_unreadable", identity=str(identity.pk), cause=type(error).__name__)
        return
    tokens = given.tokens
    if Client(given.issuer, given.client_id) != client_of(provider):
        get_logger().warning("upstream_tokens_of_another_client", provider=provider.slug)
        return
    before = KeptTokens.objects.select_related("identity").filter(identity=identity).first()
    if before is not None and before.kept_at.timestamp() > tokens.given_at:
        return
    if before is not None and before.provider_id == provider_id and not tokens.refresh_token:
        tokens = msgspec.structs.replace(tokens, refresh_token=_refresh_token_of(before))
    KeptTokens.objects.update_or_create(identity=identity, defaults=columns(identity, provider_id, tokens))


def _keeping(provider_id: UUID) -> UpstreamProvider | None:
    """Return a provider whose tokens are kept; it is not changed until the transaction ends.

    Sign-ins share the lock, which Django has no word for, so that those of one provider do not wait for each other.
    """
    found = UpstreamProvider.objects.filter(pk=provider_id, enabled=True, keep_tokens=True)
    sql, params = found.query.sql_with_params()
    shared = " FOR SHARE" if connection.features.has_select_for_update else ""
    return next(iter(UpstreamProvider.objects.raw(sql + shared, params)), None)


def columns(identity: Identity, provider_id: UUID, tokens: Tokens) -> dict[str, Any]:
    """Return the columns of tokens that are kept with an identity.

    Args:
        identity: Whose they are.
        provider_id: The provider that has given them.
        tokens: The tokens in clear.
    """
    master_key_id, sealed = sealing.seal(msgspec.msgpack.encode(tokens), _KEPT, _row(identity))
    return {
        "provider_id": provider_id,
        "master_key_id": master_key_id,
        "sealed": sealed,
        "scope": tokens.scope,
        "expires_at": datetime.fromtimestamp(tokens.expires_at, UTC) if tokens.expires_at else None,
        "can_refresh": bool(tokens.refresh_token),
        "kept_at": datetime.fromtimestamp(tokens.given_at, UTC),
        "refreshing_until": None,
    }


def opened(row: KeptTokens) -> Tokens:
    """Return tokens in clear.

    Args:
        row: With its identity.

    Raises:
        MasterKeyMissingError: Their master key has left the settings.
        SealBrokenError: They were damaged, or are another identity's or account's.
    """
    return _decoded(sealing.unseal(row.master_key_id, bytes(row.sealed), _KEPT, _row(row.identity)))


def forget(provider_id: UUID) -> int:
    """Delete the tokens of a provider, those that wait too; return how many identities had some. Two queries.

    A row that somebody is linking in this moment is passed over: they hold it and wait for the provider's. ``keep``
    finds the provider changed then. To wait for them here would be a deadlock.

    Args:
        provider_id: The provider, whose row the caller has changed in this transaction so that it keeps no more.
    """
    waiting = UpstreamSignIn.objects.filter(provider_id=provider_id, tokens__isnull=False)
    free = waiting.select_for_update(skip_locked=True).values("pk")
    UpstreamSignIn.objects.filter(pk__in=free).update(tokens=None)
    return KeptTokens.objects.filter(provider_id=provider_id).delete()[0]


def reseal(*, batch: int) -> Resealed:
    """Seal kept tokens under the newest master key; safe at any time: those given anew meanwhile stay.

    Args:
        batch: Rows in a transaction.
    """
    kept = KeptTokens.objects.select_related("identity")
    return reseal_rows(kept.exclude(master_key_id=newest_master_key_id()), _reseal, batch=batch)


def _reseal(row: KeptTokens) -> bool:
    same = KeptTokens.objects.filter(pk=row.pk, sealed=bytes(row.sealed))
    anew = columns(row.identity, row.provider_id, opened(row))
    return same.update(sealed=anew["sealed"], master_key_id=anew["master_key_id"]) > 0


def _refresh_token_of(row: KeptTokens) -> str:
    try:
        return opened(row).refresh_token
    except (MasterKeyMissingError, SealBrokenError):
        return ""


def _decoded(text: bytes) -> Tokens:
    return msgspec.msgpack.decode(text, type=Tokens)


def _identity(provider_id: UUID, issuer: str, subject: str) -> bytes:
    return provider_id.bytes + f"{issuer}\0{subject}".encode()


def _row(identity: Identity) -> bytes:
    return identity.pk.bytes + identity.user_id.bytes + f"{identity.issuer}\0{identity.subject}".encode()
