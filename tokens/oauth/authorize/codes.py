"""Authorization codes (RFC 6749 §4.1.2): 256 random bits, good once, for a minute, for one client."""

import secrets
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledInsert, given_row
from tokens.clients.digests import digest_of
from tokens.oauth.models import AuthorizationCode

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


_INSERT: Final = CompiledInsert(lambda: given_row(AuthorizationCode))


def issue(approval: AuthorizationCodeData) -> str:
    """Unit of work: store a new code and return it. 1 query.

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
