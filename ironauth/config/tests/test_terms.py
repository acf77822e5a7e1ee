"""The version of the terms: what can be shown and linked to, and nothing else, lets the server start."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config.table import branding

URL = {"IRONAUTH_TERMS_URL": "https://example.com/terms"}


@pytest.mark.parametrize("version", ["", "1", "2026-11-01", "v" * 32])
def test_a_version_is_taken(version: str) -> None:
    """Up to 32 characters; none asks nobody."""
    assert branding.terms_version(version, URL) == version  # type: ignore[arg-type]  # one of the settings is looked at


@pytest.mark.parametrize("version", ["v" * 33, " 1", "1\n", "a\x00b"])
def test_a_version_that_cannot_be_shown_is_refused(version: str) -> None:
    """It would not come back from a form as it went."""
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_TERMS_VERSION"):
        branding.terms_version(version, URL)  # type: ignore[arg-type]  # as above


def test_a_version_needs_terms() -> None:
    """Nobody consents to what they cannot read."""
    assert branding.terms_version("", {"IRONAUTH_TERMS_URL": ""}) == ""  # type: ignore[arg-type]  # as above
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_TERMS_URL"):
        branding.terms_version("1", {"IRONAUTH_TERMS_URL": ""})  # type: ignore[arg-type]  # as above
