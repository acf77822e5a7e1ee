"""The grant of devices without a browser (RFC 8628): they ask until somebody has allowed them on another device."""

from collections.abc import Mapping
from typing import Final

from django.db import IntegrityError

from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.errors import (
    AccessDenied,
    AuthorizationPending,
    ExpiredToken,
    InvalidAuthorizationDetails,
    InvalidTarget,
    OAuthError,
    SlowDown,
)
from tokens.oauth.device import counts as device_counts
from tokens.oauth.device import units as device_units
from tokens.oauth.device.units import Outcome, Polled
from tokens.oauth.token.response import TokenRequest, TokenResponse, answer, id_key_for, refuse
from tokens.sessions import access_tokens

_REFUSALS: Final[Mapping[Outcome, type[OAuthError]]] = {
    Outcome.PENDING: AuthorizationPending,
    Outcome.TOO_SOON: SlowDown,
    Outcome.DENIED: AccessDenied,
    Outcome.EXPIRED: ExpiredToken,
    Outcome.TARGET: InvalidTarget,
    Outcome.DETAILS: InvalidAuthorizationDetails,
}

log = get_logger()


async def refuse_waiting(asked: TokenRequest) -> None:
    """Raise the answer to a device whose person has not said yes. 1 query; 1 more for one that kept its interval.

    Within the interval nothing is written: those requests are counted in memory. Raises the errors of RFC 8628 §3.5,
    ``InvalidRequest`` without a code, ``InvalidGrant`` for a code that is unknown, used, or another client's or key's,
    ``Throttled`` (429) where devices of the client have asked too soon too often.
    """
    client, address, device_code = asked.client, asked.context.address, asked.required("device_code")
    await device_counts.refuse_full(client.client_id, address)
    told = await database().read(device_units.look, client=client, device_code=device_code, jkt=asked.thumbprint)
    if told is None:
        return
    if told is Outcome.PENDING:
        await database().write_autocommit(device_units.note, client=client, device_code=device_code)
    elif told is Outcome.TOO_SOON:
        device_counts.count(client.client_id, address)
    if told in _REFUSALS:
        raise _REFUSALS[told]
    await refuse(asked)


async def by_device_code(asked: TokenRequest) -> TokenResponse:
    """Exchange a device code that its person has allowed, as ``refuse_waiting`` has found. One unit of work.

    Raises:
        OAuthError: What RFC 8628 §3.5 has a device told.
        InvalidGrant: The code was used meanwhile, or its person is gone.
        SigningKeyMissing: (503) before anything is used up.
    """
    device_code = asked.required("device_code")
    mark = token_cache().mark()
    key, id_key = await access_tokens.signing_key(asked.client), await id_key_for(asked.client, asked.client.scopes)
    polled = await _polled(asked, device_code)
    if polled.outcome in _REFUSALS:
        raise _REFUSALS[polled.outcome]
    log.info("device_code_redeemed", outcome=polled.outcome.value, client_id=asked.client.client_id)
    if polled.opened is None:
        await refuse(asked)
    opened, aim, left = polled.opened, polled.aim, polled.details
    return await answer(asked, opened, key, mark, scope=opened.scope, id_key=id_key, aim=aim, details=left)


async def _polled(asked: TokenRequest, device_code: str) -> Polled:
    """Return what the device is told; UNKNOWN when its person or client was deleted in this very moment."""
    try:
        return await database().write(
            device_units.poll,
            client=asked.client,
            device_code=device_code,
            jkt=asked.thumbprint,
            session_jkt=asked.session_jkt,
            context=asked.context,
            resources=asked.resources,
            details=asked.details,
        )
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        return Polled(Outcome.UNKNOWN)
