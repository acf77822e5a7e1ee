"""The sessions that clients hold for people: units of work open them for a code or another grant."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import models

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.infrastructure.db.compiled import CompiledSelect, Param
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.registry import Client
from tokens.protocol import GrantType, Scope, scope_set
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.sessions.queries import NewSession, OpenedSession


class ConsentedAccess(NamedTuple):
    """The client a session is for and what it may do, as the person has allowed it.

    ``authenticated_at``, ``amr``: when and how they proved who they are. ``parent_id``: the SSO session they did
    it in. ``dpop_jkt``: the key its tokens are bound to, "" for none. ``resources``: the APIs they are for, "" for this
    server's own audience. ``details``: the authorization details, "" for none. ``organization_id``: what they act for
    there, None as a rule.
    """

    account: Account
    scope: str
    authenticated_at: datetime
    amr: str
    parent_id: UUID | None = None
    dpop_jkt: str = ""
    resources: str = ""
    details: str = ""
    organization_id: UUID | None = None


#: Why an SSO session has ended in which nothing begins any more, with ``offline_access`` neither.
_THROWN_OUT: Final = (
    Session.RevokeReason.ENDED_BY_USER.value,
    Session.RevokeReason.ENDED_BY_STAFF.value,
    Session.RevokeReason.REUSE.value,
)


class _Parent(NamedTuple):
    """What an SSO session says to the sessions that begin in it."""

    ended_with_all_at: datetime | None
    revoked_at: datetime | None
    revoke_reason: str
    idle_expires_at: datetime
    absolute_expires_at: datetime
    ip: str | None
    user_agent: str

    @property
    def thrown_out(self) -> bool:
        """Whether nothing begins in it: also where it ended with everybody's, and its row gives another reason."""
        return self.ended_with_all_at is not None or self.revoke_reason in _THROWN_OUT


class _Shown(NamedTuple):
    """Where a session is, as its person will see it."""

    ip: str | None
    user_agent: str


_ID: Final = Param("id", models.UUIDField())
#: Locked until the commit: another request that ends it at the same time waits, and then finds what began in it.
_PARENT: Final = CompiledSelect(
    lambda: (
        Session.objects.select_for_update(no_key=True)
        .filter(pk=_ID)
        .with_all_end()
        .order_by()
        .values_list(*_Parent._fields)
    )
)


def open_client_session(
    *,
    client: Client,
    consented: ConsentedAccess,
    context: ClientContext,
    session_id: UUID | None = None,
    elsewhere: bool = False,
) -> OpenedSession | None:
    """Store a new session of the person for the client, and that they signed in there. 4 queries; 3 without parent.

    It lasts as the client's settings say; without the grant refresh_token, as long as its
    access token. It is shown with the address and browser of the SSO session, where there is one: a client's server
    says nothing to its user.

    Args:
        client: The client that holds it.
        consented: What the person has allowed.
        context: Where the request comes from.
        session_id: The session's id; None: a new one.
        elsewhere: Whether it is on another device than the SSO session, and shown with ``context``.

    Returns:
        None when the SSO session was thrown out, or is over and it would end with it: one without offline_access.

    Raises:
        IntegrityError: The user or client was deleted meanwhile.
    """
    sessions.make_room(consented.account, keep=consented.parent_id)
    parent = _parent(consented.parent_id)
    session = _session(client, consented, parent, context, session_id=session_id, elsewhere=elsewhere)
    if session is None:
        return None
    account = consented.account
    opened = sessions.store(session, account)
    details = {"client": client.client_id}
    audit.record(
        Event.CLIENT_SIGN_IN, actor_id=account.id, user_id=account.id, session_id=opened.session_id, details=details
    )
    return opened


def _session(
    client: Client,
    consented: ConsentedAccess,
    parent: _Parent | None,
    context: ClientContext,
    *,
    session_id: UUID | None,
    elsewhere: bool = False,
) -> NewSession | None:
    """Return the session to be; None when it would end with an SSO session that is over."""
    now = clock.now()
    if parent is not None and parent.thrown_out:
        return None
    idle_s, absolute = _limits(client, now)
    if Scope.OFFLINE_ACCESS not in scope_set(consented.scope) and consented.parent_id is not None:
        if parent is None or parent.revoked_at is not None or parent.idle_expires_at <= now:
            return None
        absolute = min(absolute, parent.absolute_expires_at)
    shown = (
        _Shown(parent.ip, parent.user_agent)
        if parent and not elsewhere
        else _Shown(context.address, context.user_agent)
    )
    return NewSession(
        id=session_id or new_id(),
        user_id=consented.account.id,
        master_key_id=newest_master_key_id(),
        client_id=client.client_id,
        scope=consented.scope,
        epoch=consented.account.session_epoch,
        created_at=now,
        authenticated_at=consented.authenticated_at,
        amr=consented.amr,
        last_used_at=now,
        idle_expires_at=sessions.idle_end(now, absolute, idle_s),
        absolute_expires_at=absolute,
        ip=shown.ip or None,
        user_agent=shown.user_agent,
        parent_id=consented.parent_id,
        dpop_jkt=consented.dpop_jkt,
        resources=consented.resources,
        details=consented.details,
        organization_id=consented.organization_id,
    )


def access_token_s(client: Client) -> int:
    """Return how long the client's access tokens live, in seconds."""
    return int(settings.IRONAUTH_ACCESS_TOKEN_S if client.access_token_s is None else client.access_token_s)


def _limits(client: Client, now: datetime) -> tuple[int | None, datetime]:
    """Return the seconds a session of the client may be idle, None for the settings' own, and its absolute end."""
    absolute_s = (
        settings.IRONAUTH_SESSION_ABSOLUTE_S if client.session_absolute_s is None else client.session_absolute_s
    )
    if GrantType.REFRESH_TOKEN not in client.grants:
        absolute_s = min(absolute_s, access_token_s(client))
    return client.session_idle_s, now + timedelta(seconds=absolute_s)


def _parent(session_id: UUID | None) -> _Parent | None:
    rows = _PARENT.rows(id=session_id) if session_id is not None else []
    return _Parent(*rows[0]) if rows else None
