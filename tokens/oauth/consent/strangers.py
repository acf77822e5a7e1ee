"""What the consent page says of an application that a stranger made: where it comes from, and for how long."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext

from ironauth.config.addresses import is_local
from ironauth.infrastructure.core.durations import in_words
from tokens.clients.registry import Client
from tokens.protocol import Scope, scope_set


def facts(client: Client, *, redirect_uri: str, scope: str) -> dict[str, Any]:
    """Return what the page says of it.

    The name is what the application says of itself. Where it comes from it cannot choose: the host of its document or,
    without one, the host that gets the answer.

    Args:
        client: The client, unverified.
        redirect_uri: Where it is answered.
        scope: What it asks for.
    """
    idle_s = settings.IRONAUTH_SESSION_IDLE_S if client.session_idle_s is None else client.session_idle_s
    most_s = settings.IRONAUTH_SESSION_ABSOLUTE_S if client.session_absolute_s is None else client.session_absolute_s
    return {
        "origin": origin_of(client.document_url, redirect_uri),
        "most": in_words(most_s),
        "idle": in_words(min(idle_s, most_s)),
        "ends_with_sign_in": Scope.OFFLINE_ACCESS not in scope_set(scope),
    }


def origin_of(document_url: str, redirect_uri: str) -> str:
    """Return where an application comes from, in a word or two.

    Args:
        document_url: The address of its document, "" without one.
        redirect_uri: Where it is answered.
    """
    parts = urlsplit(document_url or redirect_uri)
    if parts.scheme not in ("http", "https"):
        return gettext("A program on this device")
    host = parts.hostname or ""
    return gettext("A program on this device") if is_local(host) else host
