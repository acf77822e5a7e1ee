"""The one setting, ``IRONAUTH_CLIENT``, and the client made of it."""

from functools import cache
from typing import Any, Final

from django.conf import settings
from django.core.cache import cache as django_cache
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from ironauth_client.client import Client
from ironauth_client.config import Config

REQUIRED: Final = ("ISSUER", "CLIENT_ID")
DEFAULTS: Final[dict[str, Any]] = {
    "CLIENT_SECRET": "",
    "AUDIENCE": "",
    "SCOPE": "openid profile email",
    "METADATA": False,  # whether refusals of the API name its metadata (RFC 9728), which metadata_urls serves
    "API_NAME": "",  # of the metadata, as the scopes that a client may ask for
    "API_SCOPES": [],
    "REVOCATION": False,  # whether each API request asks the server too; see Config.introspection_s
    "CREATE_USERS": True,
    "SCOPE_PERMISSIONS": {},  # permissions of this site by scope of a token, and by role of its person; see TokenUser
    "ROLE_PERMISSIONS": {},
    "SESSION_S": None,  # seconds a sign-in lasts at most; SESSION_COOKIE_AGE unless given
    "TRANSPORT": None,  # an httpx transport, for tests: FakeIssuer().transport
}


class CacheReplayStore:
    """Used proofs and logout tokens, in Django's default cache: every process must reach the same one."""

    def first_use(self, key: str, seconds: float) -> bool:
        """Remember ``key``; return whether it was new."""
        return bool(django_cache.add(f"ironauth-used-{key}", 1, timeout=int(seconds) + 1))


def setting(name: str) -> Any:
    """Return a member of the setting.

    Raises:
        ImproperlyConfigured: It has no default and is missing.
    """
    given = getattr(settings, "IRONAUTH_CLIENT", {})
    if name in REQUIRED and not given.get(name):
        raise ImproperlyConfigured(f"IRONAUTH_CLIENT[{name!r}] is missing")
    return given.get(name, DEFAULTS.get(name))


@cache
def client() -> Client:
    """Return the process's client. Raises ``ImproperlyConfigured`` or ``ValueError``."""
    config = Config(
        issuer=setting("ISSUER"),
        audience=setting("AUDIENCE"),
        client_id=setting("CLIENT_ID"),
        client_secret=setting("CLIENT_SECRET"),
        publishes_metadata=setting("METADATA"),
    )
    return Client(config, replays=CacheReplayStore(), transport=setting("TRANSPORT"))


def _forget(*, setting: str, **_: object) -> None:
    if setting == "IRONAUTH_CLIENT":
        client.cache_clear()


setting_changed.connect(_forget)
