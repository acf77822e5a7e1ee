"""Settings read at every request follow Django's."""

import pytest
from django.test import override_settings

from ironauth.infrastructure.core.live_settings import live


def test_a_changed_setting_is_seen_at_once() -> None:
    """Within `override_settings` and after it, however often it was read before."""
    before = live.IRONAUTH_TRUSTED_PROXIES
    with override_settings(IRONAUTH_TRUSTED_PROXIES=["192.0.2.1"]):
        assert live.IRONAUTH_TRUSTED_PROXIES == ["192.0.2.1"]
        with override_settings(IRONAUTH_TRUSTED_PROXIES=["192.0.2.2"]):
            assert live.IRONAUTH_TRUSTED_PROXIES == ["192.0.2.2"]
        assert live.IRONAUTH_TRUSTED_PROXIES == ["192.0.2.1"]
    assert before == live.IRONAUTH_TRUSTED_PROXIES


def test_a_setting_that_does_not_exist_is_an_error() -> None:
    """As with Django's own object."""
    with pytest.raises(AttributeError, match="IRONAUTH_NO_SUCH"):
        _ = getattr(live, "IRONAUTH_NO_SUCH")  # noqa: B009 - the checker knows it is none
