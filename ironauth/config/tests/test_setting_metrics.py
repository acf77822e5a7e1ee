"""The token that opens /metrics."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config.checks import metrics_token

SHORTEST = "t" * 43


@pytest.mark.parametrize("value", [SHORTEST, "t" * 255, "aZ09-._~+/" * 5, f"{SHORTEST}=="])
@pytest.mark.parametrize("on", [True, False])
def test_what_a_scraper_can_send_is_taken(value: str, on: bool) -> None:
    """43 to 255 characters of a bearer token, also while metrics are off."""
    assert metrics_token(value, on=on) == value


def test_without_metrics_no_token_is_needed() -> None:
    """Nobody has to think of what they do not use."""
    assert metrics_token("", on=False) == ""


@pytest.mark.parametrize(
    "value", ["", "t" * 42, "t" * 256, f"{SHORTEST} t", f"{SHORTEST}\n", f"{SHORTEST}é", f"={SHORTEST}"]
)
def test_metrics_that_anybody_could_read_stop_the_start(value: str) -> None:
    """None, one that is short, and one that no header field can carry are refused; the value is not repeated."""
    with pytest.raises(
        ImproperlyConfigured, match=r"^IRONAUTH_METRICS_TOKEN must have 43 to 255 .*makes one$"
    ) as refused:
        metrics_token(value, on=True)
    assert not value or value not in str(refused.value)
