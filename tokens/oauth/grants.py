"""What a client may exchange for tokens at the token endpoint (RFC 6749 §4.1, §4.4, §6), each grant a service.

``GRANTS`` is all there is; the metadata name what is in it.
"""

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple, NoReturn

import msgspec
from django.db import IntegrityError

from accounts import rate_limits
from ironauth.infrastructure.cache import Reading, token_cache
from ironauth.infrastructure.database import database
from ironauth.infrastructure.database_faults import refers_to_nothing
from ironauth.infrastructure.logs import get_logger
from tokens import access_tokens, refresh_token, session_rotation
from tokens.key_store import key_store
from tokens.keys import ActiveKey
from tokens.oauth import id_tokens, redemption, subjects
from tokens.oauth.client_sessions import access_token_s
from tokens.oauth.clients import Client
from tokens.oauth.errors import InvalidGrant, InvalidRequest, InvalidScope, UnauthorizedClient
from tokens.oauth.protocol import GrantType, Scope, scope_set, scope_text
from tokens.oauth.redemption import PresentedCode, Redemption
from tokens.session_rotation import Outcome
from tokens.sessions import ClientInfo, Grant

#: What only a person can allow: a client that asks for itself has none of it.
ABOUT_PEOPLE: Final = frozenset({Scope.OPENID.value, Scope.OFFLINE_ACCESS.value, Scope.ACCOUNT.value})

log = get_logger()


class TokenRequest(NamedTuple):
    """A request to the token endpoint whose client has proved who it is."""

    client: Client
    parameters: Mapping[str, str]
    whence: ClientInfo

    def required(self, name: str) -> str:
        """Return a parameter; raise ``InvalidRequest`` when it is missing."""
        value = self.parameters.get(name)
        if value is None:
            raise InvalidRequest(f"The parameter {name} is missing.")
        return value


class TokenResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tokens (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3); ``expires_in``: seconds the access token lives.

    ``scope`` is told even when nothing is left of it: left out, it would mean "as asked for".
    """

    access_token: str
    token_type: Literal["Bearer", "DPoP"]
    expires_in: int
    scope: str
    refresh_token: str = ""
    id_token: str = ""


async def by_code(asked: TokenRequest) -> TokenResponse:
    """Exchange an authorization code. One unit of work.

    Raises ``InvalidRequest`` for a missing parameter, ``InvalidGrant`` for a code that is unknown, expired, used or
    another client's, or asked for with another redirect address or verifier; a used one ends the session of its first
    use, committed, before this raises. Raises ``SigningKeyMissing`` (503) before anything is used up.
    """
    presented = PresentedCode(
        asked.required("code"), asked.required("redirect_uri"), asked.parameters.get("code_verifier", "")
    )
    reading = token_cache().begin()
    key, id_key = await key_store().signing(), await _id_key(asked.client, asked.client.scopes)
    redeemed = await _redeemed(presented, asked)
    event = log.warning if redeemed.outcome is redemption.Outcome.REUSED else log.info
    event("code_redeemed", outcome=redeemed.outcome.value, client_id=asked.client.client_id)
    if redeemed.grant is None:
        await _refuse(asked)
    scope, nonce = redeemed.grant.scope, redeemed.nonce
    return await _answer(asked, redeemed.grant, key, reading, scope=scope, nonce=nonce, id_key=id_key)


async def by_refresh_token(asked: TokenRequest) -> TokenResponse:
    """Exchange a refresh token, by the rules of all refresh tokens (``session_rotation``). One unit of work.

    ``scope`` may ask for less, for this access token alone; what staff have taken from the client is left out. Raises
    ``InvalidScope`` for more, and the token stays as it was; ``InvalidGrant`` for a token that is unknown, expired,
    revoked, used before or another client's; ``SigningKeyMissing`` (503) before anything is changed.
    """
    client = asked.client
    wanted = scope_set(asked.parameters.get("scope", ""))
    parsed = refresh_token.parse(asked.required("refresh_token"))
    if not wanted <= client.scopes:
        raise InvalidScope
    if parsed is None:
        await _refuse(asked)
    reading = token_cache().begin()
    key, id_key = await key_store().signing(), await _id_key(client, wanted or client.scopes)
    rotation = await database().write_once(
        session_rotation.rotate,
        parsed=parsed,
        client_id=client.client_id,
        wanted=wanted,
        idle_s=client.session_idle_s,
    )
    event = log.warning if rotation.outcome is Outcome.REUSE else log.info
    event("refresh", outcome=rotation.outcome.value, session_id=str(parsed.session_id), client_id=client.client_id)
    if rotation.outcome is Outcome.WIDER:
        raise InvalidScope
    if rotation.grant is None:
        await _refuse(asked)
    scope = scope_text(wanted or scope_set(rotation.grant.scope) & client.scopes)
    return await _answer(asked, rotation.grant, key, reading, scope=scope, id_key=id_key)


async def by_client_credentials(asked: TokenRequest) -> TokenResponse:
    """Give a client a token for itself: without refresh token (RFC 6749 §4.4.3), without ID token. No query.

    Without ``scope`` it has all the client may have that is not about a person. Raises ``UnauthorizedClient`` for a
    public client, ``InvalidScope`` for a scope that is not the client's, or only a person's to give.
    """
    client = asked.client
    if client.is_public:
        raise UnauthorizedClient
    own = client.scopes - ABOUT_PEOPLE
    wanted = scope_set(asked.parameters.get("scope", ""))
    if not wanted <= own:
        raise InvalidScope
    scope = scope_text(wanted or own)
    key = await key_store().signing()
    access = access_tokens.of_client(client.id, key, scope=scope, life_s=client.access_token_s)
    log.info("client_token_issued", client_id=client.client_id)
    return TokenResponse(access.text, "Bearer", access.expires_in, scope)


GRANTS: Final[Mapping[str, Callable[[TokenRequest], Awaitable[TokenResponse]]]] = {
    GrantType.AUTHORIZATION_CODE.value: by_code,
    GrantType.REFRESH_TOKEN.value: by_refresh_token,
    GrantType.CLIENT_CREDENTIALS.value: by_client_credentials,
}


async def _redeemed(presented: PresentedCode, asked: TokenRequest) -> Redemption:
    """Return what became of the code; UNKNOWN when its person or client was deleted in this very moment."""
    try:
        return await database().write(redemption.redeem, presented=presented, client=asked.client, whence=asked.whence)
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        return Redemption(redemption.Outcome.UNKNOWN)


async def _id_key(client: Client, scopes: AbstractSet[str]) -> ActiveKey | None:
    """Return the key that signs the ID token, None where ``scopes`` are all there can be and make none.

    Asked before anything is used up: what the code was given for is known when it is. Raises ``SigningKeyMissing``.
    """
    return await id_tokens.signing_key(client) if Scope.OPENID in scopes else None


async def _answer(
    asked: TokenRequest,
    grant: Grant,
    key: ActiveKey,
    reading: Reading,
    *,
    scope: str,
    nonce: str = "",
    id_key: ActiveKey | None = None,
) -> TokenResponse:
    """Return the tokens of a session's grant; ``id_key``: what signs the ID token, if it was looked up before."""
    client = asked.client
    subject = subjects.subject_id(client, grant.account.id)
    access = access_tokens.of_session(grant, key, reading, subject=subject, scope=scope, life_s=access_token_s(client))
    id_token = ""
    if Scope.OPENID in scope_set(scope):
        id_token = await id_tokens.mint(
            client=client,
            account=grant.account,
            scope=scope,
            session_id=grant.parent_id,
            authenticated_at=grant.authenticated_at,
            amr=grant.amr,
            nonce=nonce,
            access_token=access.text,
            key=id_key,
        )
    refreshed = grant.refresh_token if GrantType.REFRESH_TOKEN in client.grants else ""
    return TokenResponse(access.text, "Bearer", access.expires_in, scope, refreshed, id_token)


async def _refuse(asked: TokenRequest) -> NoReturn:
    """Raise ``InvalidGrant``, or ``Throttled`` when too many came from the address of a public client.

    Who has proved to be a confidential client is not counted: many people's tokens die behind its one address.
    """
    if asked.client.is_public:
        await rate_limits.admit(rate_limits.REFRESH, address=asked.whence.ip)
    raise InvalidGrant
