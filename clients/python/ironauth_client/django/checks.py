"""What ``manage.py check`` says of a site that is not set up."""

from collections.abc import Sequence
from typing import Any, Final

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error

from ironauth_client.config import NOBODY_ASKS, Config
from ironauth_client.django.conf import DEFAULTS, REQUIRED

BACKEND: Final = "ironauth_client.django.backends.IronAuthBackend"
MIDDLEWARE: Final = "ironauth_client.django.middleware.OpenSessionMiddleware"
AUTHENTICATION: Final = "django.contrib.auth.middleware.AuthenticationMiddleware"


def check_settings(*_: Sequence[AppConfig] | None, **__: Any) -> list[CheckMessage]:
    """Return an error for each thing that is missing or wrong."""
    found: list[CheckMessage] = []
    given = getattr(settings, "IRONAUTH_CLIENT", None)
    if not isinstance(given, dict):
        return [Error("IRONAUTH_CLIENT is no dict.", hint=f"Set {' and '.join(REQUIRED)}.", id="ironauth_client.E001")]
    found += [
        Error(f"IRONAUTH_CLIENT[{name!r}] is missing.", id="ironauth_client.E001")
        for name in REQUIRED
        if not given.get(name)
    ]
    found += [
        Error(f"IRONAUTH_CLIENT[{name!r}] is not known.", id="ironauth_client.E002")
        for name in sorted(set(given) - {*REQUIRED, *DEFAULTS})
    ]
    if given.get("ISSUER"):
        try:
            Config(issuer=given["ISSUER"])
        except ValueError as error:
            found.append(Error(f"IRONAUTH_CLIENT['ISSUER']: {error}.", id="ironauth_client.E003"))
    found += [
        Error(
            f"IRONAUTH_CLIENT[{name!r}] maps no names to lists of permissions.",
            hint='Write {"orders:read": ["shop.view_order"]}.',
            id="ironauth_client.E005",
        )
        for name in ("SCOPE_PERMISSIONS", "ROLE_PERMISSIONS")
        if not _is_map(given.get(name, {}))
    ]
    if given.get("REVOCATION") and not given.get("CLIENT_SECRET"):
        hint = "Set CLIENT_ID and CLIENT_SECRET, or leave REVOCATION out."
        found.append(Error(f"IRONAUTH_CLIENT['REVOCATION']: {NOBODY_ASKS}.", hint=hint, id="ironauth_client.E006"))
    if BACKEND in settings.AUTHENTICATION_BACKENDS:
        listed = list(settings.MIDDLEWARE)
        wanted = [AUTHENTICATION, MIDDLEWARE]
        if [name for name in listed if name in wanted] != wanted:
            hint = f"List {MIDDLEWARE!r} in MIDDLEWARE, after {AUTHENTICATION!r}."
            found.append(Error("A back-channel logout would end no session.", hint=hint, id="ironauth_client.E004"))
    return found


def _is_map(given: object) -> bool:
    """Return whether this maps names to collections of permissions; a text is no collection."""
    return isinstance(given, dict) and all(
        isinstance(name, str)
        and isinstance(held, list | tuple | set | frozenset)
        and all(isinstance(one, str) and "." in one for one in held)
        for name, held in given.items()
    )
