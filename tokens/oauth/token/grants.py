"""What a client may exchange for tokens at the token endpoint (RFC 6749 §4.1, §4.4, §6), each grant a service.

``GRANTS`` is all there is; the metadata name what is in it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from django.db import IntegrityError

from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.errors import (
    AccessDenied,
    InvalidAuthorizationDetails,
    InvalidScope,
    InvalidTarget,
    UnauthorizedClient,
)
from tokens.details import lists as detail_lists
from tokens.oauth import codes, targets
from tokens.oauth import details as authorization_details
from tokens.oauth.codes import PresentedCode, Redemption
from tokens.oauth.endpoint import NO_MEMBER, ORGANIZATION
from tokens.oauth.token.device_grant import by_device_code
from tokens.oauth.token.exchange import by_exchange
from tokens.oauth.token.response import TokenRequest, TokenResponse, answer, id_key_for, life_s, refuse
from tokens.protocol import GrantType, Scope, scope_set, scope_text
from tokens.sessions import access_tokens, refresh_token
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.refresh import units as refresh_units
from tokens.sessions.refresh.queries import Outcome
from tokens.sessions.refresh.units import Wanted

#: What only a person can allow: a client that asks for itself has none of it.
ABOUT_PEOPLE: Final = frozenset({Scope.OPENID.value, Scope.OFFLINE_ACCESS.value, Scope.ACCOUNT.value})

log = get_logger()


async def by_code(asked: TokenRequest) -> TokenResponse:
    """Exchange an authorization code. One unit of work.

    A client that proves the code to be its own by PKCE may leave ``redirect_uri`` out (OAuth 2.1 §4.1.3).

    Raises:
        InvalidRequest: A parameter is missing.
        InvalidGrant: The code is unknown, expired, used or another client's, or was asked for with another redirect
            address or verifier. A used one ends the session of its first use, committed, before this raises.
        SigningKeyMissing: (503) before anything is used up.
    """
    code, verifier = asked.required("code"), asked.parameters.get("code_verifier", "")
    redirect_uri = asked.parameters.get("redirect_uri", "") if verifier else asked.required("redirect_uri")
    presented = PresentedCode(
        code, redirect_uri, verifier, asked.jkt, asked.session_jkt, asked.resources, asked.details
    )
    mark = token_cache().mark()
    key, id_key = await access_tokens.signing_key(asked.client), await id_key_for(asked.client, asked.client.scopes)
    redeemed = await _redeemed(presented, asked)
    event = log.warning if redeemed.outcome is codes.Outcome.REUSED else log.info
    event("code_redeemed", outcome=redeemed.outcome.value, client_id=asked.client.client_id)
    if redeemed.outcome is codes.Outcome.TARGET:
        raise InvalidTarget
    if redeemed.outcome is codes.Outcome.DETAILS:
        raise InvalidAuthorizationDetails
    if redeemed.opened is None:
        await refuse(asked)
    return await answer(
        asked,
        redeemed.opened,
        key,
        mark,
        scope=redeemed.opened.scope,
        nonce=redeemed.nonce,
        named=redeemed.id_claims,
        id_key=id_key,
        aim=redeemed.aim,
        details=redeemed.details,
    )


async def by_refresh_token(asked: TokenRequest) -> TokenResponse:
    """Exchange a refresh token, by the rules of all refresh tokens (``sessions.refresh.units``). One unit of work.

    ``scope``, ``resource`` and ``authorization_details`` may ask for less, for this access token alone; what staff have
    taken from the client is left out. ``organization`` says what the session acts for from now on.

    Raises:
        InvalidScope: It asks for more; the token stays as it was. ``InvalidTarget`` and
            ``InvalidAuthorizationDetails`` likewise.
        AccessDenied: The person is no member of the organization; the token stays as it was.
        InvalidGrant: The token is unknown, expired, revoked, used before or another client's.
        SigningKeyMissing: (503) before anything is changed.
    """
    client = asked.client
    wanted = scope_set(asked.parameters.get("scope", ""))
    organization = asked.parameters.get(ORGANIZATION) if organizations.is_on() else None
    parsed = refresh_token.parse(asked.required("refresh_token"))
    if not client.may_have(scope_text(wanted)):
        raise InvalidScope
    if parsed is None:
        await refuse(asked)
    details, mark = asked.details, token_cache().mark()
    key, id_key = await access_tokens.signing_key(client), await id_key_for(client, wanted or client.scopes)
    rotation = await database().write_autocommit(
        refresh_units.rotate,
        parsed=parsed,
        client_id=client.client_id,
        wanted=Wanted(
            wanted,
            asked.resources,
            client.resources,
            details,
            client.authorization_details_types,
            organization,
        ),
        idle_s=client.session_idle_s,
        grace_s=client.grace_s(proved=bool(asked.thumbprint)),
        jkt=asked.thumbprint,
    )
    event = log.warning if rotation.outcome is Outcome.REUSE else log.info
    event("refresh", outcome=rotation.outcome.value, session_id=str(parsed.session_id), client_id=client.client_id)
    if rotation.outcome is Outcome.WIDER:
        raise InvalidScope
    if rotation.outcome is Outcome.TARGET:
        raise InvalidTarget
    if rotation.outcome is Outcome.DETAILS:
        raise InvalidAuthorizationDetails
    if rotation.outcome is Outcome.NO_MEMBER:
        raise AccessDenied(NO_MEMBER)
    if rotation.opened is None:
        await refuse(asked)
    scope = scope_text(wanted) or client.allowed_of(rotation.opened.scope)
    aim, left = rotation.aim, rotation.details
    return await answer(asked, rotation.opened, key, mark, scope=scope, id_key=id_key, aim=aim, details=left)


async def by_client_credentials(asked: TokenRequest) -> TokenResponse:
    """Give a client a token for itself: without refresh token (RFC 6749 §4.4.3), without ID token. No query.

    One query with a resource. Without ``scope`` it has all the client may have that is not about a person, or none with
    ``authorization_details``; other scopes are ignored.

    Raises:
        UnauthorizedClient: a public client.
        InvalidScope: a malformed scope, or one of which nothing is the client's own to have.
        InvalidAuthorizationDetails: As ``details.of_client_itself``.
    """
    client = asked.client
    if client.is_public:
        raise UnauthorizedClient
    aim = await targets.aim_of(client, asked.resources)
    own = client.scopes - ABOUT_PEOPLE
    own = own if aim is None else scope_set(aim.scope_of(scope_text(own)))
    wanted = asked.parameters.get("scope", "")
    details = await authorization_details.of_client_itself(client, asked.details) if asked.details else ""
    scope = client.granted_of(wanted, own) if wanted.split() else "" if details else scope_text(own)
    key = await targets.key_for(aim, await access_tokens.signing_key(client))
    access = access_tokens.of_client(
        client.id, key, scope=scope, life_s=life_s(client, aim), cnf=asked.cnf, aim=aim, details=details
    )
    log.info("client_token_issued", client_id=client.client_id)
    told = detail_lists.stored(details) if details else ()
    return TokenResponse(access.text, asked.token_type, access.expires_in, scope, authorization_details=told)


GRANTS: Final[Mapping[str, Callable[[TokenRequest], Awaitable[TokenResponse]]]] = {
    GrantType.AUTHORIZATION_CODE.value: by_code,
    GrantType.REFRESH_TOKEN.value: by_refresh_token,
    GrantType.CLIENT_CREDENTIALS.value: by_client_credentials,
    GrantType.DEVICE_CODE.value: by_device_code,
    GrantType.TOKEN_EXCHANGE.value: by_exchange,
}


async def _redeemed(presented: PresentedCode, asked: TokenRequest) -> Redemption:
    """Return what became of the code; UNKNOWN when its person or client was deleted in this very moment."""
    try:
        return await database().write(codes.redeem, presented=presented, client=asked.client, context=asked.context)
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        return Redemption(codes.Outcome.UNKNOWN)
