"""A whole sign-in at a provider that signs nobody in: staff go there and come back, and are told what came.

Its ``state`` begins with a word that no sign-in's has, and is in no row of sign-ins: neither passes for the other. What
the provider is asked and how its answer is judged is what a sign-in does (``answers``).
"""

import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple

from accounts.federation.errors import UpstreamRefused, UpstreamUnavailable
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.queries import STATE_BYTES
from tokens.upstream import answers, discovery, exchange
from tokens.upstream.administration import trial_words
from tokens.upstream.administration.trial_words import Fault
from tokens.upstream.providers import Provider

_MARK: Final = "trial."  # no sign-in's state has a dot
LIFE_S: Final = 600  # seconds to come back in
_REFUSED: Final = 400  # the least status of an answer that is a refusal


class Begun(NamedTuple):
    """A trial on its way: where the browser goes, and what the provider gives back.

    ``fault``: what the provider has said against the request already, before anybody has signed in.
    """

    address: str
    state: str
    fault: Fault | None


class Tried(NamedTuple):
    """What came back: a person, or what is wrong."""

    person: UpstreamPerson | None
    fault: Fault | None = None


def is_trial(state: str) -> bool:
    """Tell whether what a provider gave back belongs to a trial."""
    return state.startswith(_MARK)


async def begin(provider: Provider) -> Begun:
    """Return the way to the provider. Nobody is made to sign in anew there: ``prompt`` is not sent.

    The same request with ``prompt=none`` is sent from here before: to a client and a redirect URI that it knows, a
    provider answers by a redirect (OpenID Connect Core §3.1.2.6), to any other with an error page.

    Args:
        provider: The provider; it need not be enabled.

    Raises:
        UpstreamUnavailable: Its document cannot be had.
    """
    discovery.forget()  # what was changed at the provider a minute ago counts
    where = await discovery.endpoints(provider.id, provider.issuer, provider.kind)
    state = f"{_MARK}{secrets.token_urlsafe(STATE_BYTES)}"
    address = answers.request_of(provider, where, state)
    fault = await _refused_at_once(address, provider.slug) if where.jwks_uri else None
    return Begun(address, state, fault)


async def _refused_at_once(address: str, slug: str) -> Fault | None:
    """Return what the provider has against the request; None where it has nothing, or does not answer."""
    try:
        status, page = await exchange.looked_at(f"{address}&prompt=none")
    except UpstreamUnavailable:  # the browser may get there though this server does not
        return None
    if status < _REFUSED:
        return None
    return trial_words.of_refused_request(status, names_redirect=b"redirect" in page.lower(), slug=slug)


async def judged(provider: Provider, answer: Mapping[str, str]) -> Tried:
    """Return who came back, or what is wrong; exchanges the code.

    Args:
        provider: The provider.
        answer: What the browser has brought: ``state``, ``code``, ``iss``, ``error``, ``error_description``, ``user``.
    """
    try:
        return Tried(await answers.person_of(provider, answer))
    except UpstreamRefused as error:
        if error.cause == "refused_there":
            return Tried(None, trial_words.of_answer(answer, provider.slug))
        return Tried(None, trial_words.of_refusal(error.cause, error.said, provider))
    except UpstreamUnavailable as error:
        return Tried(None, trial_words.of_silence(error.cause))
