"""Public keys of a client that registers where they are (``jwks_uri``): kept as long as their headers say.

A text that names a key which is not among them has them fetched again, at most once a minute for each client and
worker: the client has changed its keys. Without an answer there are no keys, and nothing it signs is good.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.clients.fetched import fetching
from tokens.clients.fetched.errors import FetchRefused
from tokens.clients.keys import MAX_FILE_BYTES, MAX_KEYS, problem_of_key
from tokens.clients.models import client_tag
from tokens.clients.registry import Client
from tokens.errors import InvalidToken

#: Seconds for which an address without usable keys is not asked again.
REST_S: Final = 10.0
#: Seconds between two fetches because of a key that is not known.
ANEW_S: Final = 60.0
LONGEST_TEXT: Final = 8_000  # bytes, as of a request object
_ACCEPT: Final = "application/jwk-set+json, application/json"
_NONE: Final[Mapping[str, Any]] = {"keys": []}


class _Held(msgspec.Struct, frozen=True):
    """The keys that an address had, none for no answer that can be used; ``until``: in unix seconds."""

    keys: dict[str, Any]
    until: float


#: By client, when its keys were last fetched because one was missing; unix seconds.
_asked_anew: Final[dict[str, float]] = {}


async def of(client: Client, text: str) -> Mapping[str, Any]:
    """Return the keys that may have signed a text of a client, by value or from their address.

    No query and no request while they are known.

    Args:
        client: The client.
        text: A signed JWT as it was received; what it says is not verified.
    """
    if not client.jwks_uri:
        return client.jwks or _NONE
    held = await _fetched(client, None)
    kid = _named(text)
    if not kid or not held.keys["keys"] or any(key.get("kid") == kid for key in held.keys["keys"]):
        return held.keys
    if _may_ask_anew(client.client_id):
        token_cache().drop(_tag(client))
        return (await _fetched(client, held)).keys
    return (await _fetched(client, None)).keys  # which somebody else may be fetching now


def _may_ask_anew(client_id: str) -> bool:
    """Return whether a client's keys may be fetched because one is missing, and note that they are."""
    now = clock.unix()
    for other in [one for one, at in _asked_anew.items() if now - at >= ANEW_S]:
        del _asked_anew[other]
    if client_id in _asked_anew:
        return False
    _asked_anew[client_id] = now
    return True


async def _fetched(client: Client, former: _Held | None) -> _Held:
    """Return the keys at the client's address.

    Args:
        client: The client.
        former: Those that lack a key which somebody has named: they stay where the address does not answer.
    """
    tags = (client_tag(client.client_id), _tag(client))

    async def load() -> "Loaded[_Held]":
        now = clock.unix()
        try:
            known = not client.unverified
            answer = await fetching.fetch(client.jwks_uri, accept=_ACCEPT, longest=MAX_FILE_BYTES, known=known)
            held = _Held(usable(client.jwks_uri, answer), now + answer.keep_s)
        except FetchRefused:
            if former is None:
                return Loaded(_Held({"keys": []}, now + REST_S), tags, now + REST_S, absent=True)
            held = former
        return Loaded(held, tags, held.until)

    return await token_cache().fetch(f"cj:{client.client_id}", load, _Held, tags=tags)


def usable(url: str, answer: fetching.Answer) -> dict[str, Any]:
    """Return the keys of an answer that can verify signatures; others in the set are ignored (RFC 7517 §5).

    Args:
        url: Where it came from.
        answer: What was there.

    Raises:
        FetchRefused: It is no JWK set, or has none of these keys, or more than ``MAX_KEYS``.
    """
    said = fetching.json_of(url, answer)
    keys = said.get("keys") if isinstance(said, dict) else None
    if not isinstance(keys, list):
        raise fetching.refused(url, "no key set")
    good = [key for key in keys if isinstance(key, dict) and problem_of_key(key) is None]
    if not 1 <= len(good) <= MAX_KEYS:
        raise fetching.refused(url, f"{len(good)} keys for signatures")
    return {"keys": good}


def _named(text: str) -> str:
    """Return the key that a text says it is signed by; "" for none."""
    try:
        kid = codec.header_of(text, longest=LONGEST_TEXT).get("kid")
    except InvalidToken:
        return ""
    return kid if isinstance(kid, str) else ""


def _tag(client: Client) -> str:
    return f"client-keys:{client.client_id}"
