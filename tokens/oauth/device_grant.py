"""The grant of devices without a browser (RFC 8628): they ask until somebody has allowed them on another device."""

from collections.abc import Mapping
from typing import Final

from django.db import IntegrityError

from ironauth.infrastructure.cache import token_cache
from ironauth.infrastructure.database import database
from ironauth.infrastructure.database_faults import refers_to_nothing
from ironauth.infrastructure.logs import get_logger
from tokens.key_store import key_store
from tokens.oauth import device_units
from tokens.oauth.device_units import Outcome, Polled
from tokens.oauth.errors import AccessDenied, AuthorizationPending, ExpiredToken, OAuthError, SlowDown
from tokens.oauth.token_answers import TokenRequest, TokenResponse, answer, id_key_for, refuse

_REFUSALS: Final[Mapping[Outcome, type[OAuthError]]] = {
    Outcome.PENDING: AuthorizationPending,
    Outcome.TOO_SOON: SlowDown,
    Outcome.DENIED: AccessDenied,
    Outcome.EXPIRED: ExpiredToken,
}

log = get_logger()


async def by_device_code(asked: TokenRequest) -> TokenResponse:
    """Exchange a device code, once its person has allowed it. One unit of work.

    Raises what RFC 8628 §3.5 has a device told, ``InvalidRequest`` without a code, ``InvalidGrant`` for one that is
    unknown, used, another client's or key's, or whose person is gone. Raises ``SigningKeyMissing`` (503) before
    anything is used up.
    """
    device_code = asked.required("device_code")
    reading = token_cache().begin()
    key, id_key = await key_store().signing(), await id_key_for(asked.client, asked.client.scopes)
    polled = await _polled(asked, device_code)
    if polled.outcome in _REFUSALS:
        raise _REFUSALS[polled.outcome]
    log.info("device_code_redeemed", outcome=polled.outcome.value, client_id=asked.client.client_id)
    if polled.grant is None:
        await refuse(asked)
    return await answer(asked, polled.grant, key, reading, scope=polled.grant.scope, id_key=id_key)


async def _polled(asked: TokenRequest, device_code: str) -> Polled:
    """Return what the device is told; UNKNOWN when its person or client was deleted in this very moment."""
    try:
        return await database().write(
            device_units.poll,
            client=asked.client,
            device_code=device_code,
            jkt=asked.jkt,
            session_jkt=asked.session_jkt,
            whence=asked.whence,
        )
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        return Polled(Outcome.UNKNOWN)
