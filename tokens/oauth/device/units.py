"""Units of work on devices that wait for somebody to allow them (RFC 8628). Synchronous.

Outcomes are return values: a unit that raised would roll back what it has written.
"""

import enum
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from django.db.models import QuerySet

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users.services import account_snapshot
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db.unit_of_work import about_to_commit
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.models import digest_of
from tokens.clients.registry import Client
from tokens.details import queries as detail_queries
from tokens.oauth import device_codes
from tokens.oauth.consent import units as consents
from tokens.oauth.models import DeviceGrant
from tokens.resources.queries import Aim, Named, aimed
from tokens.sessions import sso_session
from tokens.sessions.client_sessions import ConsentedAccess, open_client_session
from tokens.sessions.queries import OpenedSession
from tokens.sessions.sso_session import SsoCookie

LIFE_S: Final = 600  # seconds: time to find a telephone and sign in on it
INTERVAL_S: Final = 5  # seconds between two questions of a device: RFC 8628 §3.2
#: Seconds two questions may be closer together than the interval: answers take their time on the way.
SLACK_S: Final = 1
_State: Final = DeviceGrant.State


class Outcome(enum.StrEnum):
    """What a device that asks is told."""

    GRANTED = "granted"
    UNKNOWN = "unknown"  # no such code, another client's or key's, or its tokens were handed out
    EXPIRED = "expired"
    DENIED = "denied"
    PENDING = "pending"
    TOO_SOON = "too_soon"
    DETAILS = "details"  # the device was not allowed the authorization details that it asks for
    TARGET = "target"  # no token is given out for the APIs that it asks for
    INACTIVE = "inactive"  # the person was deactivated, or has ended all sessions or the SSO session, since


class Polled(NamedTuple):
    """The outcome; ``opened`` exactly when it is GRANTED. ``aim``, ``details``: as of a code's redemption."""

    outcome: Outcome
    opened: OpenedSession | None = None
    aim: Aim | None = None
    details: str = ""


class Waiting(NamedTuple):
    """A device that waits: for which client, with which scope and authorization details, and for which APIs."""

    client_id: str
    scope: str
    resources: str
    details: str


def begin(*, client: Client, scope: str, jkt: str, resources: str = "", details: str = "") -> tuple[str, str]:
    """Store a waiting device; return its code, and the one for the person. 2 queries.

    Args:
        client: The device's client.
        scope: What the device asks for, judged.
        jkt: The thumbprint of the key that its tokens are bound to (RFC 9449); "" for none.
        resources: The APIs that they are for, judged; "" for this server's own audience.
        details: The authorization details, judged; "" for none.

    Raises:
        IntegrityError: the client was deleted meanwhile.
    """
    device_code, user_code = device_codes.new_device_code(), device_codes.new_user_code()
    while DeviceGrant.objects.filter(user_code=device_codes.stored(user_code)).exists():
        user_code = device_codes.new_user_code()
    now = clock.now()
    DeviceGrant.objects.create(
        digest=digest_of(device_code),
        user_code=device_codes.stored(user_code),
        client_id=client.id,
        scope=scope,
        dpop_jkt=jkt,
        resources=resources,
        details=details,
        interval_s=INTERVAL_S,
        created_at=now,
        expires_at=now + timedelta(seconds=LIFE_S),
    )
    return device_code, user_code


def find(*, user_code: str) -> Waiting | None:
    """Return the device that waits for this code, None when none does (any more). 1 query."""
    row = _waiting(user_code).values_list("client_id", "scope", "resources", "details").first()
    return None if row is None else Waiting(str(row[0]), *row[1:])


def allow(
    *,
    client: Client,
    user_code: str,
    scope: str,
    cookie: SsoCookie,
    resources: Sequence[Named] = (),
    details: Sequence[str] = (),
) -> bool | None:
    """Let the device have what was shown to the person of this cookie; one transaction.

    True when it will get it, False when nobody waits any more, None when nobody is signed in with the cookie.

    Args:
        client: The device's client.
        user_code: The person's code, normalised.
        scope: What the person was shown.
        cookie: The SSO cookie of the person's browser, not yet judged.
        resources: The APIs that they were shown.
        details: The types of the authorization details that they were shown.
    """
    session = sso_session.find(cookie)
    if session is None or not sso_session.hold(session):
        return None
    person = session.account.id
    allowed = (
        _waiting(user_code)
        .filter(client_id=client.id)
        .update(
            state=_State.APPROVED,
            user_id=person,
            epoch=session.epoch,
            authenticated_at=session.authenticated_at,
            amr=session.amr,
            sso_session_id=session.id,
        )
    )
    if not allowed:
        return False
    sso_session.touch(session)
    if not client.trusted or details:
        given = consents.given(scope, resources)
        consents.remember(user_id=person, client_id=client.id, given=given, session_id=session.id, details=details)
    told = {"client": client.client_id, "scope": scope.split()}
    audit.record(Event.DEVICE_ALLOWED, actor_id=person, user_id=person, session_id=session.id, details=told)
    return True


def deny(*, client: Client, user_code: str) -> bool:
    """Tell the device no; return whether it was still waiting. 1 query.

    Args:
        client: The device's client.
        user_code: The person's code, normalised.
    """
    return _waiting(user_code).filter(client_id=client.id).update(state=_State.DENIED) > 0


def look(*, client: Client, device_code: str, jkt: str) -> Outcome | None:
    """Return the answer to a device that asks, and write nothing; None once its person has said yes.

    1 query. PENDING is to be noted by ``note``; a device that asks within its interval is told TOO_SOON.

    Args:
        client: The client that asks, authenticated.
        device_code: The device's code as it was received.
        jkt: The thumbprint of the key that was proved; "" for none.
    """
    row = _of_device(client, device_code)
    outcome = _told(row, jkt)
    if outcome is Outcome.PENDING and row is not None and row.polled_at is not None:
        asked_s = (clock.now() - row.polled_at).total_seconds()
        return Outcome.TOO_SOON if asked_s < row.interval_s - SLACK_S else outcome
    return outcome


def note(*, client: Client, device_code: str) -> None:
    """Note that a device has asked, from which its next interval counts. 1 query.

    Args:
        client: The client that asks, authenticated.
        device_code: The device's code as it was received.
    """
    waiting = DeviceGrant.objects.filter(pk=digest_of(device_code), client_id=client.id, state=_State.PENDING)
    about_to_commit()
    waiting.update(polled_at=clock.now())


def poll(
    *,
    client: Client,
    device_code: str,
    jkt: str,
    session_jkt: str,
    context: ClientContext,
    resources: str = "",
    details: str = "",
) -> Polled:
    """Return what a device is told whose person has said yes, as ``look`` found; the first to ask gets the session.

    6 queries, one more where resources are named, and where there are authorization details.

    Args:
        client: The device's client.
        device_code: What the device asks with.
        jkt: The key that was proved, "" for none.
        session_jkt: The key its session is to be bound to, "" for none.
        context: Where the device is.
        resources: The APIs that the access token is to be for, "" for all that were allowed.
        details: The authorization details that it is to have, "" for all that were allowed.

    Raises:
        IntegrityError: the user or client was deleted meanwhile.
    """
    row = _of_device(client, device_code)
    outcome = _told(row, jkt)
    if row is None or outcome is not None:
        return Polled(outcome or Outcome.UNKNOWN)
    aim = None
    if row.resources or resources or client.resources:
        aim = aimed(granted=row.resources, asked=resources, allowed=client.resources)
        if aim is None:
            return Polled(Outcome.TARGET)
    left: str | None = ""
    if row.details or details:
        types = client.authorization_details_types
        left = detail_queries.given_out(granted=row.details, asked=details, allowed=types)
        if left is None:
            return Polled(Outcome.DETAILS)
    return _granted(row, client, session_jkt, context)._replace(aim=aim, details=left or "")


def _of_device(client: Client, device_code: str) -> DeviceGrant | None:
    return DeviceGrant.objects.filter(pk=digest_of(device_code), client_id=client.id).first()


def _told(row: DeviceGrant | None, jkt: str) -> Outcome | None:
    """Return what the device of this row is told; None once its person has said yes."""
    if row is None or row.state == _State.USED or (row.dpop_jkt and row.dpop_jkt != jkt):
        return Outcome.UNKNOWN
    if row.state == _State.DENIED:
        return Outcome.DENIED
    if clock.now() >= row.expires_at:
        return Outcome.EXPIRED
    return Outcome.PENDING if row.state == _State.PENDING else None


def _waiting(user_code: str) -> QuerySet[DeviceGrant]:
    return DeviceGrant.objects.filter(
        user_code__in=device_codes.stored_forms(user_code), state=_State.PENDING, expires_at__gt=clock.now()
    )


def _granted(row: DeviceGrant, client: Client, session_jkt: str, context: ClientContext) -> Polled:
    """Use up the person's yes and open the session; of several at once one gets it."""
    session_id = new_id()
    used = DeviceGrant.objects.filter(pk=row.pk, state=_State.APPROVED).update(state=_State.USED, session_id=session_id)
    if not used or row.user_id is None or row.authenticated_at is None:
        return Polled(Outcome.UNKNOWN)
    account = account_snapshot(row.user_id)
    if account is None or not account.user.is_active or account.session_epoch != row.epoch:
        return Polled(Outcome.INACTIVE)
    left = client.allowed_of(row.scope)
    consented = ConsentedAccess(
        account, left, row.authenticated_at, row.amr, row.sso_session_id, session_jkt, row.resources, row.details
    )
    opened = open_client_session(
        client=client, consented=consented, context=context, session_id=session_id, elsewhere=True
    )
    return Polled(Outcome.GRANTED, opened) if opened else Polled(Outcome.INACTIVE)
