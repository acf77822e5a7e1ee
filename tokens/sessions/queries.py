"""What is asked of sessions and their rows; of the hot paths each is one statement, compiled once."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from django.db import models
from django.db.models import F, Q

from accounts.users.models import User
from accounts.users.outputs import ACCOUNT_COLUMNS, Account, account_of
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db.compiled import (
    CompiledInsert,
    CompiledOfMany,
    CompiledSelect,
    CompiledUpdate,
    Param,
    given_row,
)
from tokens.clients.models import OAuthClient
from tokens.principal import ActiveOrganization
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session, new_secret
from tokens.sessions.outputs import ListedSession, SessionOut, session_out

#: Sessions in one list. A script that never signs out has more, and can end them all at once.
MOST_LISTED: Final = 1_000
#: What an SSO session is called, in which people use this server's own pages and are signed in to applications.
SINGLE_SIGN_ON: Final = "Single sign-on"


class StoredSession(NamedTuple):
    """A session as it was read, with the account of its person; ``revoked_at`` is what ``with_end`` says."""

    account: Account
    id: UUID
    authenticated_at: datetime
    amr: str
    generation: int
    secret: bytes
    master_key_id: str
    client_id: str
    scope: str
    epoch: int
    last_used_at: datetime
    rotated_at: datetime | None
    idle_expires_at: datetime
    absolute_expires_at: datetime
    revoked_at: datetime | None
    parent_id: UUID | None
    dpop_jkt: str
    actor_id: UUID | None
    actor_epoch: int | None
    resources: str
    details: str
    organization_id: UUID | None

    def is_over(self, now: datetime) -> bool:
        """Return whether the session was revoked or has expired at ``now``; says nothing about its user."""
        return self.revoked_at is not None or now >= self.idle_expires_at


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """All a token pair is made from. ``expires_at``: when the session ends unless it is refreshed.

    ``parent_id``: the SSO session it began in, if any. ``stored``: for an SSO session, the row as it will be read.
    ``others``: what the browser's second cookie says of the other SSO sessions it keeps.
    ``actor_id``: the member of staff who opened it to act as the person, None as a rule.
    ``resources``: the APIs that its access tokens are for, "" for this server's own audience.
    ``organization``: what the person acts for in it, None as a rule.
    """

    session_id: UUID
    account: Account
    client_id: str
    scope: str
    refresh_token: str
    expires_at: datetime
    authenticated_at: datetime
    amr: str
    parent_id: UUID | None = None
    stored: StoredSession | None = None
    others: tuple[str, ...] = ()
    actor_id: UUID | None = None
    resources: str = ""
    organization: ActiveOrganization | None = None


class NewSession(msgspec.Struct, kw_only=True):
    """A session to be stored, with every column of ``Session``: a model instance takes ten times as long to make."""

    user_id: UUID
    master_key_id: str
    client_id: str
    scope: str
    epoch: int
    created_at: datetime
    authenticated_at: datetime
    amr: str
    last_used_at: datetime
    idle_expires_at: datetime
    absolute_expires_at: datetime
    ip: str | None
    user_agent: str
    parent_id: UUID | None = None
    dpop_jkt: str = ""
    actor_id: UUID | None = None
    actor_epoch: int | None = None
    kept_device_id: UUID | None = None
    browser: str = ""
    goes_on_from: UUID | None = None
    resources: str = ""
    details: str = ""
    organization_id: UUID | None = None
    id: UUID = msgspec.field(default_factory=new_id)
    secret: bytes = msgspec.field(default_factory=new_secret)
    generation: int = 0
    rotated_at: datetime | None = None
    revoked_at: datetime | None = None
    revoke_reason: str = ""


class LiveSession(NamedTuple):
    """Whose a session is that lives, when and how they last proved it, and which client it was opened for.

    ``actor_id``: the member of staff who opened it to act as the person, with their epoch, until ``idle_expires_at``.
    ``organization``: what a token of it says of the one that it acts for, no column.
    """

    account: Account
    authenticated_at: datetime
    amr: str
    client_id: str
    actor_id: UUID | None = None
    actor_epoch: int | None = None
    idle_expires_at: datetime | None = None
    organization_id: UUID | None = None
    organization: ActiveOrganization | None = None


#: How far a session's last use may lie behind: exact enough for people, and no record of their every minute.
LAST_USE_STEP: Final = timedelta(seconds=60)
_ID: Final = Param("id", models.UUIDField())
_NOW: Final = Param("now", models.DateTimeField())
_SESSION_COLUMNS: Final = StoredSession._fields[1:]
_READ: Final = tuple("ended_at" if one == "revoked_at" else one for one in _SESSION_COLUMNS)
_LIVE_COLUMNS: Final = LiveSession._fields[1:-1]
_ACCOUNT_COLUMNS: Final = tuple(f"user__{column}" for column in ACCOUNT_COLUMNS)
_BY_ID: Final = CompiledSelect(
    lambda: Session.objects.filter(pk=_ID).with_end().order_by().values_list(*_READ, *_ACCOUNT_COLUMNS)
)
_LIVE: Final = CompiledSelect(
    lambda: (
        Session.objects.filter(
            pk=_ID,
            user=Param("user_id", models.UUIDField()),
            epoch=Param("epoch", models.IntegerField()),
            revoked_at=None,
            idle_expires_at__gt=_NOW,
        )
        .outlasting()
        .order_by()
        .values_list(*_LIVE_COLUMNS, *_ACCOUNT_COLUMNS)
    )
)
_LISTED: Final = CompiledSelect(
    lambda: (
        Session.objects.filter(user_id=Param("user_id", models.UUIDField()))
        .live(_NOW)
        .order_by("-last_used_at", "-id")
        .values_list(*ListedSession._fields)[:MOST_LISTED]
    )
)
_NAMES_OF_CLIENTS: Final = CompiledOfMany(
    lambda: OAuthClient.objects.values_list("pk", "name"), "pk", models.UUIDField()
)
_INSERT: Final = CompiledInsert(lambda: given_row(Session))
_ADVANCE: Final = CompiledUpdate(
    lambda: Session.objects.filter(
        pk=_ID, generation=Param("generation", models.IntegerField()), revoked_at=None, idle_expires_at__gt=_NOW
    ),
    generation=F("generation") + 1,
    last_used_at=Param("last_used_at", models.DateTimeField()),
    rotated_at=_NOW,
    idle_expires_at=Param("idle_end", models.DateTimeField()),
)
_AUTHENTICATE: Final = CompiledUpdate(
    lambda: Session.objects.filter(
        pk=_ID, user=Param("user_id", models.UUIDField()), revoked_at=None, idle_expires_at__gt=_NOW
    ),
    authenticated_at=_NOW,
    amr=Param("amr", models.CharField()),
)
_END: Final = CompiledUpdate(
    lambda: Session.objects.filter(pk=_ID, revoked_at=None),
    revoked_at=_NOW,
    revoke_reason=Param("reason", models.CharField()),
)
_END_OWN: Final = CompiledUpdate(
    lambda: Session.objects.filter(
        pk=_ID,
        user=Param("user_id", models.UUIDField()),
        epoch=Param("epoch", models.IntegerField()),
        revoked_at=None,
        idle_expires_at__gt=_NOW,
    ),
    revoked_at=_NOW,
    revoke_reason=Param("reason", models.CharField()),
)


def add(session: NewSession) -> None:
    """Store a new session. 1 query.

    Raises:
        IntegrityError: its user does not exist.
    """
    _INSERT.run(**msgspec.structs.asdict(session))


def as_read(session: NewSession, account: Account) -> StoredSession:
    """Return what ``find`` would, of a session that has just been stored.

    Args:
        session: The session, as it was stored.
        account: Whose session it is.
    """
    return StoredSession(account, *(getattr(session, column) for column in _SESSION_COLUMNS))


def find(session_id: UUID) -> StoredSession | None:
    """Return the session with its user's account, if there is one. 1 query."""
    rows = _BY_ID.rows(id=session_id)
    if not rows:
        return None
    own = len(_SESSION_COLUMNS)
    found = StoredSession(account_of([row[own:] for row in rows]), *rows[0][:own])
    return found._replace(secret=bytes(found.secret))  # drivers may return a memoryview


def find_live(*, session_id: UUID, user_id: UUID, epoch: int, now: datetime) -> LiveSession | None:
    """Return a session of this user and epoch that is neither revoked nor expired. 1 query.

    Args:
        session_id: The ``sid`` of a token.
        user_id: The person of the token.
        epoch: The epoch of the token; the session has to be of the same.
        now: The moment at which it has to be live.
    """
    rows = _LIVE.rows(id=session_id, user_id=user_id, epoch=epoch, now=now)
    if not rows:
        return None
    own = len(_LIVE_COLUMNS)
    return LiveSession(account_of([row[own:] for row in rows]), *rows[0][:own])


def authenticate(session_id: UUID, *, user_id: UUID, amr: str, now: datetime) -> bool:
    """Note that the person has just proved who they are; return whether the session lives. 1 query.

    Args:
        session_id: The session that is confirmed.
        user_id: The person whose session it has to be.
        amr: How they have proved it, in all (RFC 8176), separated by spaces.
        now: The time of the proof.
    """
    return _AUTHENTICATE.run(id=session_id, user_id=user_id, amr=amr, now=now) > 0


def advance(session: StoredSession, *, now: datetime, idle_end: datetime) -> StoredSession | None:
    """Move the session on by one generation, if it is live and still as it was read. 1 query.

    Its end moves each time. Its last use becomes ``now`` only when the stored one is at least ``LAST_USE_STEP`` old.
    Returns the session as it is now; None when another request was first.

    Args:
        session: As it was read; its generation shows whether somebody was first.
        now: The time of the refresh.
        idle_end: When it ends if it is not refreshed again.
    """
    last_use = now if now - session.last_used_at >= LAST_USE_STEP else session.last_used_at
    if not _ADVANCE.run(
        id=session.id, generation=session.generation, now=now, last_used_at=last_use, idle_end=idle_end
    ):
        return None
    return session._replace(
        generation=session.generation + 1, last_used_at=last_use, rotated_at=now, idle_expires_at=idle_end
    )


def that_go_on_from(session_ids: Collection[UUID]) -> list[UUID]:
    """Return the sessions that began in one of these or go on from it, over or not. 1 query.

    Args:
        session_ids: The sessions, over or not.
    """
    began = Session.objects.filter(Q(parent_id__in=session_ids) | Q(goes_on_from__in=session_ids))
    return list(began.order_by().values_list("pk", flat=True))


def note_device(session_id: UUID, device_id: UUID) -> bool:
    """Note which kept device a session is in the browser of; return False where it was ended meanwhile. 1 query.

    Args:
        session_id: The session.
        device_id: The device.
    """
    session = Session.objects.filter(pk=session_id, revoked_at=None).outlasting()
    return session.update(kept_device_id=device_id) > 0


def end(session_id: UUID, *, reason: Session.RevokeReason, now: datetime) -> bool:
    """Mark a session as ended, unless it was before; return whether it was marked. 1 query.

    Args:
        session_id: The session.
        reason: What is stored as the reason.
        now: The time of its end.
    """
    return _END.run(id=session_id, reason=reason.value, now=now) > 0


def end_own(session_id: UUID, *, user_id: UUID, epoch: int, now: datetime) -> bool:
    """Mark a live session of this user and epoch as ended by them; return whether there is one. 1 query.

    Args:
        session_id: The session to end.
        user_id: The person whose session it has to be.
        epoch: Their session epoch; a session of an older one is over already.
        now: The time of its end.
    """
    reason = Session.RevokeReason.ENDED_BY_USER.value
    return _END_OWN.run(id=session_id, user_id=user_id, epoch=epoch, reason=reason, now=now) > 0


def live_account(*, session_id: UUID, user_id: UUID, epoch: int) -> LiveSession | None:
    """Return the account behind a token, and what its session says, while that lives, None otherwise. 1 query.

    None too for a session in which a member of staff acts as the person: ``acting`` judges those.

    Args:
        session_id: The ``sid`` of a token.
        user_id: The person of the token.
        epoch: The epoch of the token.
    """
    live = find_live(session_id=session_id, user_id=user_id, epoch=epoch, now=clock.now())
    if live is None or not live.account.user.is_active or live.account.session_epoch != epoch:
        return None
    return live if live.actor_id is None else None


def live_sessions(*, user_id: UUID) -> list[ListedSession]:
    """Return the user's live sessions, the ``MOST_LISTED`` most recently used first. 1 query."""
    return [ListedSession(*row) for row in _LISTED.rows(user_id=user_id, now=clock.now())]


def of_user(*, user_id: UUID, current_id: UUID) -> list[SessionOut]:
    """Return the user's live sessions, the most recently used first. 1 query, 2 when some are of OAuth clients.

    1 more when staff are signed in as the person.

    Args:
        user_id: The user.
        current_id: The session of the one who asks.
    """
    found = live_sessions(user_id=user_id)
    names, actors = applications_of(found), _actors_of(found)
    listed = {one.id for one in found}
    return [
        session_out(
            one,
            current_id=current_id,
            application=names.get(one.client_id),
            actor=actors.get(one.actor_id) if one.actor_id else None,
            began_in=next((at for at in (one.parent_id, one.goes_on_from) if at in listed), None),
        )
        for one in found
    ]


def _actors_of(found: Iterable[ListedSession]) -> dict[UUID, str]:
    """Return what the staff who opened these sessions are called: their names, or addresses. 1 query, or none."""
    ids = {session.actor_id for session in found if session.actor_id is not None}
    staff = User.objects.filter(pk__in=ids).values_list("pk", "name", "email") if ids else ()
    named = {pk: name or email for pk, name, email in staff}
    return {one: named.get(one) or str(one) for one in ids}


def applications_of(found: Iterable[Session | ListedSession]) -> dict[str, str]:
    """Return what the applications of these sessions are called, by ``client_id``; those opened here have none.

    1 query, or none where no session is of an OAuth client. A client that was deleted goes by its id.
    """
    of_clients = {session.client_id for session in found} - {FIRST_PARTY_CLIENT, SSO_CLIENT}
    stored = _NAMES_OF_CLIENTS.rows([UUID(one) for one in of_clients])
    return {**{one: one for one in of_clients}, **{str(pk): name for pk, name in stored}, SSO_CLIENT: SINGLE_SIGN_ON}
