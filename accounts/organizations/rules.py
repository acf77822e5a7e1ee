"""Whether there are organisations here, how many there may be, and what one is called."""

import secrets
import string
from typing import Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.text import slugify
from django.utils.translation import gettext

from accounts import names
from accounts.organizations.errors import OrganizationsByStaff
from ironauth.infrastructure.core.errors import NotFound

#: Organisations that somebody may own when they make another.
MOST_OWNED: Final = 20
#: Organisations that somebody may be a member of: a page and a query show them all.
MOST_OF_A_PERSON: Final = 100
#: Members of one organisation.
MOST_MEMBERS: Final = 1_000
#: Invitations of one organisation that wait for an answer.
MOST_WAITING: Final = 100
_SLUG_OF_NAME: Final = 40  # characters
_RANDOM: Final = 6  # characters of 36: one in two billion is taken, and nobody learns from it which names there are
_ALPHABET: Final = string.ascii_lowercase + string.digits


def enabled() -> bool:
    """Tell whether there are organisations here (IRONAUTH_ORGANIZATIONS)."""
    return settings.IRONAUTH_ORGANIZATIONS != "off"


def require_enabled() -> None:
    """Raise ``NotFound`` where there are none, as for any path that there is not."""
    if not enabled():
        raise NotFound


def require_anybody_creates() -> None:
    """Raise what keeps people from making one: ``OrganizationsByStaff``, or ``NotFound`` where there are none."""
    require_enabled()
    if settings.IRONAUTH_ORGANIZATIONS != "anybody":
        raise OrganizationsByStaff


def validate_name(name: str) -> None:
    """Refuse what no organisation may be called: nothing, and what no person may be called.

    Raises:
        ValidationError: Django's, with the code of the rule.
    """
    if not name:
        raise ValidationError(gettext("An organisation has a name: type it."), code="blank")
    names.validate(name)


def new_slug(name: str) -> str:
    """Return a short name that begins like ``name`` and ends at random, so that nobody learns which ones are taken."""
    begin = slugify(name).replace("_", "-")[:_SLUG_OF_NAME].strip("-")
    begin = "-".join(filter(None, begin.split("-"))) or "organization"
    return f"{begin}-{''.join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))}"
