"""What people say of themselves beside their address: the profile of OpenID Connect Core §5.1.

A name to be shown, its parts, what they like to be called by applications, and where their clocks are. Nothing of it
is a way in, and none has to be unique: applications must not tell people apart by it (§5.7).
"""

import zoneinfo
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext

from accounts import names

ZONE_CHARACTERS: Final = 64  # the longest name of the IANA database has 32


@cache
def zones() -> frozenset[str]:
    """Return the names of the time zones of the IANA database that this machine knows, links to others too.

    A machine's own zone and the one of nowhere are in the folder as well, and are none of them.
    """
    return frozenset(zoneinfo.available_timezones() - {"localtime", "Factory"})


@cache
def places() -> tuple[str, ...]:
    """Return the time zones that are named after a place, sorted: what a page proposes."""
    others = ("Etc/", "SystemV/", "US/", "posix/", "right/")
    return tuple(sorted(zone for zone in zones() if "/" in zone and not zone.startswith(others)))


def validate_zone(zone: str) -> None:
    """Refuse a time zone that nobody knows; "" is none.

    Raises:
        ValidationError: Django's, with code ``zoneinfo``.
    """
    if zone and zone not in zones():
        raise ValidationError(gettext("There is no such time zone: type a place as in Europe/Berlin."), code="zoneinfo")


#: What a person may say beside the name that is shown, as the claims of §5.1 are called, and what judges it.
FIELDS: Final[Mapping[str, Callable[[str], None]]] = {
    "preferred_username": names.validate,
    "given_name": names.validate,
    "family_name": names.validate,
    "zoneinfo": validate_zone,
}


class Profile(models.Model):
    """The columns, with words for the admin. The release before this one inserts without those of ``FIELDS``."""

    name = models.CharField("name", max_length=names.MAX_LENGTH, blank=True, validators=[names.validate])
    given_name = models.CharField(
        "first name",
        max_length=names.MAX_LENGTH,
        blank=True,
        default="",
        db_default="",
        validators=[names.validate],
    )
    family_name = models.CharField(
        "last name",
        max_length=names.MAX_LENGTH,
        blank=True,
        default="",
        db_default="",
        validators=[names.validate],
    )
    preferred_username = models.CharField(
        "user name in applications",
        max_length=names.MAX_LENGTH,
        blank=True,
        default="",
        db_default="",
        validators=[names.validate],
        help_text="Applications may show it. Nobody signs in with it, and several people may have the same.",
    )
    zoneinfo = models.CharField(
        "time zone",
        max_length=ZONE_CHARACTERS,
        blank=True,
        default="",
        db_default="",
        validators=[validate_zone],
        help_text="A place as in Europe/Berlin.",
    )
    #: A code of ``settings.LANGUAGES``; "" is no wish. The release before this one inserts without it.
    language = models.CharField("language", max_length=16, blank=True, default="", db_default="", editable=False)

    class Meta:
        """No table of its own."""

        abstract = True


def normalise(user: Profile) -> None:
    """Bring the names of a user into the form that is stored."""
    for field in ("name", *FIELDS):
        setattr(user, field, names.normalise(getattr(user, field)))


def fitting(told: Mapping[str, Any]) -> dict[str, str]:
    """Return what of somebody's profile elsewhere an account here may have; what it may not is left out.

    Args:
        told: Values by the names of ``FIELDS``, and ``language``, whose region does not count.
    """
    kept: dict[str, str] = {}
    for field, validate in FIELDS.items():
        value = told.get(field)
        text = names.normalise(value) if isinstance(value, str) else ""
        try:
            validate(text)
        except ValidationError:
            continue
        if text:
            kept[field] = text
    spoken = str(told.get("language") or "").replace("_", "-").partition("-")[0].lower()
    return kept | ({"language": spoken} if spoken in dict(settings.LANGUAGES) else {})
