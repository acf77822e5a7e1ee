"""The sign-in page before anybody has typed anything: rendered once for requests that look the same.

Rendering was a fifth of what the five requests of a sign-in cost the event loop; putting a request into a rendered
page takes 10 µs.
"""

import secrets
from functools import _lru_cache_wrapper, lru_cache
from typing import Final, NamedTuple

import msgspec
from django.template.loader import render_to_string

from accounts.users import email_verification
from tokens.clients.registry import Client
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.state import AuthorizationState

TEMPLATE: Final = "tokens/oauth/sign_in.html"
#: Clients whose pages are kept, and pages of each; at 4 kB each 4 MiB. Anybody can vary a client's request (its scopes,
#: prompt, age): that drops pages of this client alone.
CLIENTS: Final = 256
PAGES: Final = 4

#: Stands for the signed state while a page is rendered; of characters that no escaping changes; random.
_MARK: Final = secrets.token_urlsafe(24)


class _Look(NamedTuple):
    """All that a page depends on."""

    site_name: str
    client: Client
    state: AuthorizationState
    proof_required: bool


_decoder: Final = msgspec.msgpack.Decoder(_Look)


def html(site_name: str, client: Client, state: AuthorizationState, browser: str) -> str:
    """Return the page for a request without a ``login_hint``.

    The template sees the request without what differs each time: ``state``, ``nonce``, ``code_challenge``,
    ``dpop_jkt``, and when it expires.
    """
    asked = msgspec.structs.replace(state.request, state="", nonce="", code_challenge="", dpop_jkt="")
    plain = msgspec.structs.replace(state, request=asked, expires_at=0)
    look = _Look(site_name, client, plain, email_verification.is_required())
    return pages_of(client.client_id)(msgspec.msgpack.encode(look)).replace(
        _MARK, authorization_state.sign(state, browser)
    )


@lru_cache(maxsize=CLIENTS)
def pages_of(client_id: str) -> "_lru_cache_wrapper[str]":  # noqa: ARG001 - it is the cache's key
    """Return what renders the pages of one client, and remembers them."""
    return lru_cache(maxsize=PAGES)(_rendered)


def _rendered(encoded: bytes) -> str:
    """Return the page that looks so, with a mark where the signed_state request belongs."""
    look = _decoder.decode(encoded)
    return render_to_string(TEMPLATE, {**look._asdict(), "email": "", "signed_state": _MARK})
