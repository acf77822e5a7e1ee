"""Authorization codes (RFC 6749 §4.1.2): 256 random bits, good once, for a minute, for one client.

Units of work: issue one, redeem one. Every outcome of a redemption is a return value, even a refusal: a unit that
raised would roll back the revocation that a second use calls for.
"""

import base64
import enum
import hmac
import re
import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from django.db import models

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users.outputs import ACCOUNT_COLUMNS, Account, account_of
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db.compiled import CompiledInsert, CompiledSelect, CompiledUpdate, Param, given_row
from ironauth.infrastructure.db.unit_of_work import raise_if_timed_out
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.models import digest_of
from tokens.clients.registry import Client
from tokens.details import queries as detail_queries
from tokens.oauth.models import AuthorizationCode
from tokens.resources.queries import Aim, aimed
from tokens.sessions import units as sessions
from tokens.sessions.client_sessions import ConsentedAccess, open_client_session
from tokens.sessions.models import Session
from tokens.sessions.organizations import queries as organizations
from tokens.sessions.queries import OpenedSession

LIFE_S: Final = 60  # seconds; OAuth 2.0 says at most ten minutes, security-bar 39 a minute
CODE_BYTES: Final = 32  # 256 random bits


class AuthorizationCodeData(msgspec.Struct, frozen=True):
    """What a person has let a client do: everything its code is bound to. Empty texts where nothing was asked."""

    client_id: UUID
    user_id: UUID
    epoch: int
    scope: str
    redirect_uri: str
    code_challenge: str
    nonce: str
    dpop_jkt: str
    authenticated_at: datetime
    amr: str
    sso_session_id: UUID | None
    id_claims: str = ""
    resources: str = ""
    details: str = ""
    organization_id: UUID | None = None


class Outcome(enum.StrEnum):
    """What became of a code that was presented."""

    REDEEMED = "redeemed"
    UNKNOWN = "unknown"  # no such code, or another client's
    MISMATCH = "mismatch"  # another redirect address, verifier or key than it was asked for with
    EXPIRED = "expired"
    REUSED = "reused"  # a second use: the session of the first is over
    INACTIVE = "inactive"  # user deactivated, or every session of the user ended
    LEFT = "left"  # the person does not belong any more to the organization that they were to act for
    SIGNED_OUT = "signed_out"  # the person has left the SSO session meanwhile
    DETAILS = "details"  # the code has not the authorization details that were asked for
    TARGET = "target"  # no token is given out for the APIs of the code, or for those that were asked for


class PresentedCode(NamedTuple):
    """What a client sends to redeem a code; "" for none.

    Attributes:
        code: The code as it was received.
        redirect_uri: The address it was asked for with; "" only where the verifier stands for it.
        verifier: The PKCE verifier (RFC 7636 §4.1).
        dpop_jkt: The thumbprint of the key that the client has proved.
        session_jkt: The thumbprint of the key that its session is to be bound to.
        resources: The APIs that the access token is to be for, less than those of the code; "" for all of them.
        details: The authorization details that it is to have, likewise.
    """

    code: str
    redirect_uri: str
    verifier: str = ""
    dpop_jkt: str = ""
    session_jkt: str = ""
    resources: str = ""
    details: str = ""


class Redemption(NamedTuple):
    """The outcome; ``opened`` exactly when it is REDEEMED.

    ``nonce``, ``id_claims``: of the authorization request, "" for none. ``aim``: what the access token is for; None for
    this server's own audience. ``details``: its authorization details, "" for none.
    """

    outcome: Outcome
    opened: OpenedSession | None = None
    nonce: str = ""
    id_claims: str = ""
    aim: Aim | None = None
    details: str = ""


class _Code(NamedTuple):
    """A code as it was read, and whose it is."""

    account: Account
    client_id: UUID
    epoch: int
    scope: str
    redirect_uri: str
    code_challenge: str
    nonce: str
    dpop_jkt: str
    authenticated_at: datetime
    amr: str
    sso_session_id: UUID | None
    id_claims: str
    resources: str
    details: str
    organization_id: UUID | None
    expires_at: datetime
    used_at: datetime | None
    session_id: UUID | None


#: RFC 7636 §4.1.
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_DIGEST: Final = Param("digest", models.CharField())
_COLUMNS: Final = _Code._fields[1:]
_BY_DIGEST: Final = CompiledSelect(
    lambda: (
        AuthorizationCode.objects.filter(pk=_DIGEST)
        .order_by()
        .values_list(*_COLUMNS, *(f"user__{column}" for column in ACCOUNT_COLUMNS))
    )
)
_USE: Final = CompiledUpdate(
    lambda: AuthorizationCode.objects.filter(pk=_DIGEST, used_at=None),
    used_at=Param("now", models.DateTimeField()),
    session_id=Param("session_id", models.UUIDField()),
)
_INSERT: Final = CompiledInsert(lambda: given_row(AuthorizationCode))


def issue(approval: AuthorizationCodeData) -> str:
    """Store a new code and return it; a unit of work, 1 query.

    Raises:
        IntegrityError: client or user is gone.
    """
    code = secrets.token_urlsafe(CODE_BYTES)
    now = clock.now()
    _INSERT.run(
        digest=digest_of(code),
        created_at=now,
        expires_at=now + timedelta(seconds=LIFE_S),
        used_at=None,
        session_id=None,
        **msgspec.structs.asdict(approval),
    )
    return code


def withdraw(*, client_id: UUID, user_id: UUID, code_challenge: str) -> None:
    """Delete the code of a request that nobody has redeemed: another one takes its place. 1 query.

    Args:
        client_id: The client.
        user_id: The person.
        code_challenge: Of the request; without one nothing tells its code from others.
    """
    if code_challenge:
        same = {"client_id": client_id, "user_id": user_id, "code_challenge": code_challenge}
        AuthorizationCode.objects.filter(**same, used_at=None).delete()


def redeem(*, presented: PresentedCode, client: Client, context: ClientContext) -> Redemption:
    """Use the code up and open the session it stands for, or return why not. 6 queries, 5 without an SSO session.

    One more where the code, or the request, names resources, and where there are authorization details; two where it
    is for an organization.

    Of several requests at once one gets the session, and the others end it. A client that does not show what the code
    is bound to neither uses it up nor ends anything.

    Args:
        presented: The code and what came with it, not yet judged.
        client: The client, which has been authenticated.
        context: Where the request comes from.

    Raises:
        IntegrityError: the user or client was deleted meanwhile.
    """
    digest = digest_of(presented.code)
    code = _find(digest)
    refusal = _refusal(code, presented, client)
    if refusal is not None or code is None:
        return Redemption(refusal or Outcome.UNKNOWN)
    over = _is_over(code)
    if over is Outcome.REUSED:
        return _used_again(code)
    names = code.resources or presented.resources or client.resources
    aim = aimed(granted=code.resources, asked=presented.resources, allowed=client.resources) if names else None
    if names and aim is None:
        over = over or Outcome.TARGET
    details: str | None = ""
    if code.details or presented.details:
        types = client.authorization_details_types
        details = detail_queries.given_out(granted=code.details, asked=presented.details, allowed=types)
        if details is None:
            over = over or Outcome.DETAILS
    if over is not None:
        return Redemption(over)
    session_id = new_id()
    if not _USE.run(digest=digest, now=clock.now(), session_id=session_id):  # somebody else was first, just now
        return _used_again(_find(digest))
    opened = open_client_session(
        client=client, consented=_consented(code, presented, client), context=context, session_id=session_id
    )
    if opened is None:
        return Redemption(Outcome.SIGNED_OUT)
    return Redemption(Outcome.REDEEMED, opened, code.nonce, code.id_claims, aim, details or "")


def _is_over(code: _Code) -> Outcome | None:
    """Return why a code is no good any more, None when it is."""
    if code.used_at is not None:
        return Outcome.REUSED
    if clock.now() >= code.expires_at:
        return Outcome.EXPIRED
    if not code.account.user.is_active or code.account.session_epoch != code.epoch:
        return Outcome.INACTIVE
    if code.organization_id is not None and organizations.find(code.account.id, code.organization_id) is None:
        return Outcome.LEFT
    return None


def _consented(code: _Code, presented: PresentedCode, client: Client) -> ConsentedAccess:
    left = client.allowed_of(code.scope)
    proved = (code.authenticated_at, code.amr, code.sso_session_id, presented.session_jkt)
    return ConsentedAccess(code.account, left, *proved, code.resources, code.details, code.organization_id)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636 §4.2)."""
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")


def _find(digest: str) -> _Code | None:
    rows = _BY_DIGEST.rows(digest=digest)
    if not rows:
        return None
    own = len(_COLUMNS)
    return _Code(account_of([row[own:] for row in rows]), *rows[0][:own])


def _refusal(code: _Code | None, presented: PresentedCode, client: Client) -> Outcome | None:
    """Return why this caller has no right to the code, None when they have."""
    if code is None or code.client_id != client.id:
        return Outcome.UNKNOWN
    is_bound = (
        (presented.redirect_uri == code.redirect_uri or (not presented.redirect_uri and code.code_challenge != ""))
        and _is_verified(code.code_challenge, presented.verifier, required=client.require_pkce)
        and (not code.dpop_jkt or code.dpop_jkt == presented.dpop_jkt)
    )
    return None if is_bound else Outcome.MISMATCH


def _is_verified(challenge: str, verifier: str, *, required: bool) -> bool:
    """Return whether the verifier is the challenge's; of neither, whether the client may do without.

    One without the other is refused: RFC 9700 §4.8.2, a downgrade.
    """
    if not challenge:
        return not verifier and not required
    return _VERIFIER.fullmatch(verifier) is not None and hmac.compare_digest(challenge_of(verifier), challenge)


def _used_again(code: _Code | None) -> Redemption:
    """End the session of the code's first use (RFC 6749 §4.1.2). 3 queries, 1 when it is over.

    Raises ``Unavailable``, and ends nothing, when the client is told to try again: the first use may be that next try.
    """
    raise_if_timed_out()
    if code is not None and code.session_id is not None:
        ended = sessions.end_session(session_id=code.session_id, reason=Session.RevokeReason.REUSE)
        if ended:
            audit.record(
                Event.CODE_REUSE,
                outcome=audit.Outcome.REFUSED,
                user_id=code.account.id,
                session_id=code.session_id,
                details={"client": str(code.client_id)},
            )
    return Redemption(Outcome.REUSED)
