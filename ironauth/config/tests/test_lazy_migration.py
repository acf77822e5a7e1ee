"""Settings of lazy migration: what is asked, where, and until when, or no start."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config import lazy_migration

NAME = "IRONAUTH_LAZY_MIGRATION"
ALL = {f"{NAME}_URL": "https://id.example.com", f"{NAME}_UNTIL": datetime(2027, 4, 1, tzinfo=UTC)}
CLIENT = {f"{NAME}_CLIENT_ID": "ironauth"}


@pytest.mark.parametrize(("kind", "given"), [("off", {}), ("endpoint", ALL), ("keycloak", {**ALL, **CLIENT})])
def test_a_kind_with_all_it_needs_is_taken(kind: str, given: dict[str, Any]) -> None:
    """Off needs nothing, an endpoint no client."""
    every = dict.fromkeys((*ALL, *CLIENT), "") | given
    assert lazy_migration.complete(kind, NAME, every) == kind


@pytest.mark.parametrize("kind", ["endpoint", "keycloak", "auth0", "cognito"])
def test_a_kind_without_what_it_needs_is_refused(kind: str) -> None:
    """Each thing that is missing is named."""
    for missing in (*ALL, *(CLIENT if kind != "endpoint" else ())):
        given = {**ALL, **CLIENT, missing: ""}
        with pytest.raises(ImproperlyConfigured, match=missing):
            lazy_migration.complete(kind, NAME, given)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://id.example.com",
        "https://id.example.com/realms/shop",
        "https://cognito-idp.eu-west-1.amazonaws.com",
        "http://127.0.0.1:8080/check",
        "http://localhost/check",
    ],
)
def test_an_address_is_taken(url: str) -> None:
    """Https, or plain http to this very machine."""
    assert lazy_migration.url(url, "X") == url


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example.com/check",
        "https://id.example.com/",
        "https://id.example.com/check?x=1",
        "https://user:password@id.example.com",
        "https://ID.example.com",
        "ftp://id.example.com",
        "id.example.com",
    ],
)
def test_an_address_that_may_not_have_passwords_is_refused(url: str) -> None:
    """Nothing unencrypted, and one spelling."""
    with pytest.raises(ImproperlyConfigured, match="X is not"):
        lazy_migration.url(url, "X")


def test_the_last_day_counts_in_full() -> None:
    """It ends where the next one begins, in UTC."""
    assert lazy_migration.until("2027-03-31", "X") == datetime(2027, 4, 1, tzinfo=UTC)
    assert lazy_migration.until("", "X") is None


@pytest.mark.parametrize("text", ["2027-02-30", "31.3.2027", "tomorrow", "2027-03-31T10:00:00", "9999-12-31"])
def test_what_is_no_day_is_refused(text: str) -> None:
    """One form, and a day that there is."""
    with pytest.raises(ImproperlyConfigured, match="X is no date"):
        lazy_migration.until(text, "X")
