"""Pages that wait for a message: kept when it is asked for, found again when its link is opened. Units of work.

A link is opened wherever mail is read. Only in the browser that asked for the message does it go on.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeGuard
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from ironauth.infrastructure.core.errors import Throttled
from tokens.clients.models import digest_of
from tokens.clients.registry import DOCUMENTS, Client
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.authorize.state import AccountState, AuthorizationState
from tokens.oauth.models import MailedPage

#: Routes of the pages that links open.
SIGN_IN: Final = "oauth:signin-link"
RESET: Final = "oauth:reset"
VERIFY: Final = "oauth:verify"
CONTINUE: Final = "oauth:continue"


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
    kept = msgspec.structs.replace(state, sign_up="", mfa_token="", methods=())  # secrets of the page that waits alone
    MailedPage.objects.create(
        id=state.code_id,
        browser=digest_of(browser),
        page=authorization_state.stored(kept),
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


async def client_of(waiting: Waiting | None) -> Client | None:
    """Return the client that a page leads to; None for a page of this site, and where nobody goes on to it any more.

    An unverified one is named in the browser that has come from it alone. Anybody can register one, give it a name, and
    have messages sent to any address on the way to it: what a link in a message opens is this site's word. Nor is the
    document of one fetched in any other browser: its server would be told that the message was opened, by a mail
    scanner too. Where no document may be fetched just now the page does without the client.

    Args:
        waiting: The page, if one waits.
    """
    if waiting is None or not isinstance(waiting.state, AuthorizationState):
        return None
    client_id = waiting.state.request.client_id
    if client_id.startswith(DOCUMENTS) and not waiting.is_here:
        return None
    try:
        client = await authorization_request.enabled_client(client_id)
    except (Unanswerable, Throttled):
        return None
    if client.unverified and not waiting.is_here:
        return None
    return client if waiting.state.may_go_on(client) else None


def is_here(waiting: Waiting | None, client: Client | None) -> TypeGuard[Waiting]:
    """Tell whether the link goes on in this browser: it has asked, and what the page leads to is still there.

    Args:
        waiting: The page, if one waits.
        client: What `client_of` has returned for it.
    """
    if waiting is None or not waiting.is_here:
        return False
    return client is not None or not isinstance(waiting.state, AuthorizationState)


def address_of(waiting: Waiting | None, client: Client | None) -> str:
    """Return where the client lives, of what staff have registered for it: its pages begin a sign-in of their own.

    Args:
        waiting: The page, if one waits.
        client: What `client_of` has returned for it; "" without one.
    """
    if waiting is None or client is None or not isinstance(waiting.state, AuthorizationState) or client.unverified:
        return ""
    parts = urlsplit(waiting.state.request.redirect_uri)
    return f"https://{parts.netloc}/" if parts.scheme == "https" else ""
