"""Where forms of the OAuth pages may lead (``form-action``, CSP Level 3 §6.4.2): here, and on to the client alone.

Chromium judges every redirect behind a form. So the policy names the client's own origins: that of the address the
answer goes to, and those of the other addresses that staff have registered for it. A client whose callback sends people
on to another origin registers an address there, for instance its ``post_logout_redirect_uri``.
"""

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tokens.clients.registry import Client

HERE: Final = "'self'"
NOWHERE: Final = "'none'"


def of_client(redirect_uri: str, client: Client | None) -> str:
    """Return what forms of a page for this client may lead to; ``redirect_uri`` is where it ends, "" for nowhere."""
    if not redirect_uri:
        return HERE
    registered = (*client.redirect_uris, *client.post_logout_redirect_uris) if client is not None else ()
    return _sources(redirect_uri, registered)


def of_answer(redirect_uri: str) -> str:
    """Return the same for the form that is the answer.

    A policy has no way to name an IPv6 address: then it names the scheme.
    """
    return f"{HERE} {urlsplit(redirect_uri).scheme}:" if is_nameless(redirect_uri) else _sources(redirect_uri, ())


def is_nameless(uri: str) -> bool:
    """Return whether a policy cannot name the address's origin: its host is an IPv6 address (CSP Level 3 §2.3.1)."""
    return urlsplit(uri).netloc.startswith("[")


@lru_cache(maxsize=256)  # asked for every page; a site has a few clients with a few addresses
def _sources(redirect_uri: str, registered: tuple[str, ...]) -> str:
    sources = [_source(uri) for uri in (redirect_uri, *registered) if not is_nameless(uri)]
    return " ".join(dict.fromkeys((HERE, *sources)))


def _source(uri: str) -> str:
    """Return the origin of an address; the scheme of one that an application on a device claims by its scheme."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"
