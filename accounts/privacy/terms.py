"""Consent to the terms of use when an account is made: which version, and when (IRONAUTH_TERMS_VERSION)."""

from typing import Any

from django.conf import settings
from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed


def is_asked() -> bool:
    """Tell whether people accept terms when they make an account."""
    return bool(settings.IRONAUTH_TERMS_VERSION)


def require_accepted(version: str) -> None:
    """Raise ``ValidationFailed`` (``terms_version``) unless this is the version to be accepted, or none is asked for.

    A page that was opened before the terms changed has another version: who sends it has not seen these.
    """
    if not is_asked() or version == settings.IRONAUTH_TERMS_VERSION:
        return
    if version:
        reason = FieldError(
            "terms_version", "other_terms", _("The terms have changed meanwhile: read them and accept them again.")
        )
    else:
        reason = FieldError("terms_version", "terms_required", _("Accept the terms to create an account."))
    raise ValidationFailed(errors=[reason])


def kept() -> dict[str, Any]:
    """Return the fields of a new user who has accepted the terms; none where nobody is asked."""
    if not is_asked():
        return {}
    return {"terms_version": settings.IRONAUTH_TERMS_VERSION, "terms_accepted_at": clock.now()}


def shown() -> dict[str, str] | None:
    """Return what a page says of the terms; None where nobody is asked."""
    if not is_asked():
        return None
    return {
        "version": settings.IRONAUTH_TERMS_VERSION,
        "terms_url": settings.IRONAUTH_TERMS_URL,
        "privacy_url": settings.IRONAUTH_PRIVACY_URL,
    }
