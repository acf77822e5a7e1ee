"""The token of ``/metrics``: requests without it get no figures.

Requests from this machine need it too: a proxy on it may pass on requests from anywhere.
"""

import re

from django.core.exceptions import ImproperlyConfigured

#: 32 random bytes have 43 characters in base64url; the alphabet is that of bearer tokens, RFC 6750 §2.1.
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{43,255}=*")


def token(value: str, *, on: bool) -> str:
    """Return the token, empty where metrics are off and none is given.

    Raises ``ImproperlyConfigured`` for metrics without a token, and for one that is short or cannot be sent.
    """
    if not value and not on:
        return value
    if TOKEN.fullmatch(value) is None:
        raise ImproperlyConfigured(
            "IRONAUTH_METRICS_TOKEN must have 43 to 255 letters, digits or -._~+/ (without it nobody may read what "
            "IRONAUTH_METRICS counts): python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        )
    return value
