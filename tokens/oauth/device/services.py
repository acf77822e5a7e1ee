"""Devices that wait for somebody to allow them (RFC 8628), as the endpoint and the pages ask about them."""

from typing import Final, NamedTuple
from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext_noop as _

from accounts.lockout import rate_limits
from ironauth.infrastructure.db.faults import refers_to_nothing
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients import registry as clients
from tokens.clients.errors import InvalidClient, OAuthError
from tokens.clients.registry import Client
from tokens.oauth import details as authorization_details
from tokens.oauth import device_codes, targets
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.request import AuthorizationRequest, aimed
from tokens.oauth.authorize.services import Decision, Step
from tokens.oauth.authorize.state import AuthorizationState
from tokens.oauth.device import units as device_units
from tokens.protocol import GrantType, ResponseMode
from tokens.resources.identifiers import joined
from tokens.sessions import sso_session
from tokens.sessions.sso_session import SsoCookie

#: What somebody is told whose code is no device's, or no longer.
GONE: Final = _("No device waits with this code: look at it again, or begin anew on the device.")

log = get_logger()


class Found(NamedTuple):
    """A waiting device's client, and the way through the pages that begins with its code."""

    client: Client
    state: AuthorizationState


async def begin(*, client: Client, scope: str, jkt: str, asked: str = "", details: str = "") -> tuple[str, str]:
    """Return the codes of a new waiting device: its own, and the person's. 2 queries, one more with resources.

    Args:
        client: The device's client.
        scope: What the device asks for, as it was received; "" for none.
        jkt: The thumbprint of the key that its tokens are bound to (RFC 9449); "" for none.
        asked: The parameters ``resource``, separated by spaces, not judged.
        details: The parameter ``authorization_details``, not judged.

    Raises:
        InvalidClient: the client has been deleted meanwhile.
        OAuthError: As ``targets.named`` and ``details.asked``.
    """
    wanted = await authorization_details.asked(client, details)
    scope, named = await targets.named(client, asked, scope, scopeless=bool(wanted))
    resources = joined(one.identifier for one in named)
    try:
        codes = await database().write(
            device_units.begin,
            client=client,
            scope=scope,
            jkt=jkt,
            resources=resources,
            details=authorization_details.stored(wanted),
        )
    except IntegrityError as error:
        if not refers_to_nothing(error):
            raise
        raise InvalidClient from error
    log.info("device_waits", client_id=client.client_id)
    return codes


async def find(*, typed: str, address: str, cookie: SsoCookie | None) -> Found | None:
    """Return the device that waits for what somebody has typed, None when none does.

    Args:
        typed: The person's code in any spelling.
        address: The client's IP address.
        cookie: The SSO cookie of the person's browser, not yet judged.

    Raises:
        Throttled: (429) too many codes were tried from this address, or by this person, right ones included.
    """
    user_code = device_codes.typed(typed)
    if user_code is None:  # no guess: there is no such code
        return None
    await rate_limits.admit(rate_limits.USER_CODE, address=address)
    person = await _person(cookie)
    if person is not None:
        await rate_limits.admit_account(rate_limits.USER_CODE, user_id=person)
    waiting = await database().read(device_units.find, user_code=user_code)
    client = await clients.find(waiting.client_id) if waiting is not None else None
    if waiting is None or client is None or GrantType.DEVICE_CODE not in client.grants:
        return None
    asked = AuthorizationRequest(
        client_id=client.client_id,
        redirect_uri="",
        response_mode=ResponseMode.QUERY.value,
        state="",
        scope=waiting.scope,
        nonce="",
        code_challenge="",
        dpop_jkt="",
        prompt=(),
        max_age=None,
        login_hint="",
        hint_sub="",
    )
    if waiting.resources or waiting.details:
        try:
            asked = await aimed(client, asked, asked=waiting.resources, detailed=waiting.details)
        except OAuthError:  # its APIs or types, or the client's right to them, have gone meanwhile
            return None
    return Found(client, authorization_state.begin(asked, device=user_code))


async def decide(cookie: SsoCookie | None) -> Decision:
    """Return the next step for the browser with this cookie; its person is always asked, even for a trusted client.

    Only they know whether the device is theirs (RFC 8628 §5.4). 1 query with a cookie.
    """
    session = await database().read(sso_session.find, cookie) if cookie is not None else None
    return Decision(Step.SIGN_IN) if session is None else Decision(Step.CONFIRM, session=session)


async def allow(state: AuthorizationState, client: Client, cookie: SsoCookie | None) -> bool | None:
    """Let the device have what was shown, to the person it was shown to.

    True when it will get it, False when nobody waits any more, None for somebody else than was asked.

    Args:
        state: The authorization state of the page that was answered.
        client: The device's client.
        cookie: The SSO cookie of the person's browser, not yet judged.
    """
    if cookie is None or cookie.session_id != state.session_id:
        return None
    done = await database().write(
        device_units.allow,
        client=client,
        user_code=state.device,
        scope=state.request.scope,
        cookie=cookie,
        resources=state.request.resources,
        details=[one.type for one in state.request.details],
    )
    if done:
        log.info("device_allowed", client_id=client.client_id, session_id=str(cookie.session_id))
    return done


async def deny(state: AuthorizationState, client: Client) -> None:
    """Tell the device no, if it still waits. 1 query.

    Args:
        state: The authorization state of the page that was answered.
        client: The device's client.
    """
    if await database().write(device_units.deny, client=client, user_code=state.device):
        log.info("device_denied", client_id=client.client_id)


async def _person(cookie: SsoCookie | None) -> UUID | None:
    session = await database().read(sso_session.find, cookie) if cookie is not None else None
    return None if session is None else session.account.id
