"""What a client says when it sends somebody to sign out, and what is true of it (RP-Initiated Logout 1.0 §2)."""

from typing import Final
from uuid import UUID

import msgspec
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.crypto import stateless_token
from ironauth.infrastructure.crypto.master_keys import register_purpose
from tokens.clients import registry as clients
from tokens.clients import subjects
from tokens.clients.errors import InvalidRequest
from tokens.clients.registry import Client
from tokens.oauth import id_tokens
from tokens.oauth.authorize.request import Unanswerable
from tokens.oauth.endpoint import MAX_BYTES, unique_parameters

_PURPOSE: Final = register_purpose("ironauth sign-out")


class Person(msgspec.Struct, frozen=True):
    """The person an ``id_token_hint`` names, and the SSO session they had when it was issued."""

    user_id: UUID
    session_id: UUID | None


class LogoutRequest(msgspec.Struct, frozen=True):
    """A request to sign out whose every part has been checked. Empty texts where nothing was asked.

    Attributes:
        client: The client that sent the person; None where it is not named.
        redirect_uri: An address that is registered for the client, character by character.
        state: Repeated to the client.
        person: None without a hint that can be verified. Then only the person who is signed in can confirm that they
            want to sign out (security-bar 52).
    """

    client: Client | None
    redirect_uri: str
    state: str
    person: Person | None


async def read(query: QueryDict) -> LogoutRequest:
    """Return what is asked.

    A hint that cannot be verified counts as none, and redirects nobody (§4); it may have been signed by a key that is
    gone.

    Raises:
        Unanswerable: parameters that are malformed or contradict each other, and for an address that is not
            registered: nobody is redirected then, and nobody signed out.
    """
    try:
        given = unique_parameters(query)
    except InvalidRequest as error:
        raise Unanswerable(error.detail) from error
    if len(query.urlencode()) > MAX_BYTES:
        raise Unanswerable(gettext("The request is longer than {most} bytes.").format(most=MAX_BYTES))
    named, uri = given.get("client_id", ""), given.get("post_logout_redirect_uri", "")
    hint = await id_tokens.read_hint(given["id_token_hint"]) if "id_token_hint" in given else None
    if hint is not None and named and hint.client_id != named:
        raise Unanswerable(_("id_token_hint was given to another application than client_id names."))
    if hint is None and "id_token_hint" in given:
        return LogoutRequest(await clients.find_for_stranger(named), "", "", None)
    client = await clients.find_for_stranger(hint.client_id if hint is not None else named)
    if uri and (client is None or uri not in client.post_logout_redirect_uris):
        raise Unanswerable(
            _(
                "The application asks to continue to an address that is not registered for it: "
                "post_logout_redirect_uri must be one of its own, character by character, and comes with "
                "id_token_hint or client_id."
            )
        )
    person = None
    if hint is not None and client is not None:
        session_id = subjects.session_of(client, hint.sid) if hint.sid is not None else None
        person = Person(subjects.user_of(client, UUID(hint.sub)), session_id)
    return LogoutRequest(client, uri, given.get("state", "") if uri else "", person)


def confirmation(session_id: UUID) -> str:
    """Return what the page's form brings back: nobody who cannot read the page of this session has it."""
    return stateless_token.mint(_PURPOSE, b"", context=session_id.bytes)


def is_confirmation(text: str, session_id: UUID) -> bool:
    """Return whether the form of this session's page was sent.

    Args:
        text: The hidden field of the form, not yet judged.
        session_id: The SSO session of the browser.
    """
    return stateless_token.parse(_PURPOSE, text, 0, context=session_id.bytes) is not None
