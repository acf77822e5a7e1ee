"""What settings of lazy migration may say: a kind with all that it needs, an address, a last day."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.core.exceptions import ImproperlyConfigured

from ironauth.config import addresses

#: What may be asked; ``accounts.lazy_migration.kinds`` has a module for each but the first.
KINDS: Final = ("off", "endpoint", "keycloak", "auth0", "cognito")


def complete(kind: str, name: str, needed: Mapping[str, object]) -> str:
    """Return the kind, where the other settings say all that it needs.

    Args:
        kind: One of ``KINDS``.
        name: Of the setting.
        needed: The settings that say where it is, until when, and as which client, by name; an endpoint knows none.

    Raises:
        ImproperlyConfigured: One of them is empty.
    """
    missing = [other for other, value in needed.items() if not value and not (kind == "endpoint" and "CLIENT" in other)]
    if kind != "off" and missing:
        raise ImproperlyConfigured(f"{name}={kind} needs {missing[0]}: set it, or {name}=off")
    return kind


def url(value: str, name: str) -> str:
    """Return where passwords are sent; empty stands for nowhere.

    Args:
        value: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is no ``https://`` origin and plain path; http is for loopback only.
    """
    if value and not addresses.is_service(value):
        raise ImproperlyConfigured(
            f"{name} is not the https:// address of a system (lower-case host; no slash at the end, query, fragment, "
            "user or default port; http is for loopback only): write it like https://id.example.com/realms/shop"
        )
    return value


def until(value: str, name: str) -> datetime | None:
    """Return the end of the last day on which the old system is asked; None stands for no day.

    Args:
        value: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is no date.
    """
    if not value:
        return None
    try:
        day = date.fromisoformat(value) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise ImproperlyConfigured(f"{name} is no date: write the last day like 2027-03-31") from None
    return datetime.combine(day, time(), UTC)
