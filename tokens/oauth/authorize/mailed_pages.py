"""Pages that wait for a message: kept when it is asked for, found again when its link is opened. Units of work.

A link is opened wherever mail is read. Only in the browser that asked for the message does it go on.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from tokens.clients.models import digest_of
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.state import AccountState, AuthorizationState
from tokens.oauth.models import MailedPage

#: Routes of the pages that links open.
SIGN_IN: Final = "oauth:signin-link"
RESET: Final = "oauth:reset"


class Waiting(NamedTuple):
    """A page that waits. ``is_here``: in the browser that has asked."""

    state: AuthorizationState | AccountState
    is_here: bool


def keep(state: AuthorizationState | AccountState, browser: str) -> None:
    """Keep the page until it expires, for the message whose token it names. One query.

    Args:
        state: The page's, with a ``code_id``.
        browser: What the browser's cookie says.
    """
    assert state.code_id is not None
    MailedPage.objects.create(
        id=state.code_id,
        browser=digest_of(browser),
        page=authorization_state.stored(state),
        expires_at=datetime.fromtimestamp(state.expires_at, UTC),
    )


def find(token_id: UUID, browser: str) -> Waiting | None:
    """Return the page that waits for the message of this token; None where none does, or it has expired. One query.

    Args:
        token_id: The token of the message.
        browser: What the browser's cookie says, "" for none.
    """
    row = MailedPage.objects.filter(pk=token_id).first()
    state = authorization_state.restored(row.page) if row is not None else None
    if row is None or state is None:
        return None
    return Waiting(state, bool(browser) and row.browser == digest_of(browser))
