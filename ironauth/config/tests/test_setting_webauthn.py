"""Settings of passkeys."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config.webauthn import relying_party

ISSUER = "https://id.example.com"


@pytest.mark.parametrize(
    ("issuer", "rp_id", "origin"),
    [
        (ISSUER, "id.example.com", ISSUER),
        ("https://id.example.com:8443", "id.example.com", "https://id.example.com:8443"),
        ("http://localhost:8000", "localhost", "http://localhost:8000"),
        ("http://id.localhost", "id.localhost", "http://id.localhost"),
        ("http://127.0.0.1:8000", "localhost", "http://localhost:8000"),
        ("http://[::1]", "localhost", "http://localhost"),
        ("https://[2001:db8::1]", "2001:db8::1", "https://[2001:db8::1]"),
    ],
)
def test_the_issuer_is_the_default(issuer: str, rp_id: str, origin: str) -> None:
    """Nothing needs to be set; a loopback address, which browsers refuse, becomes a name they take."""
    assert relying_party("", [], issuer=issuer, trusted=[]) == (rp_id, [origin])


def test_trusted_origins_count_where_browsers_let_them() -> None:
    """Pages of the same host name or below it may use the passkeys, others could not."""
    trusted = ["https://app.example.com", "https://other.example", "https://evilexample.com", ISSUER]
    assert relying_party("example.com", [], issuer=ISSUER, trusted=trusted)[1] == [ISSUER, "https://app.example.com"]
    assert relying_party("", [], issuer=ISSUER, trusted=trusted)[1] == [ISSUER]


def test_origins_that_are_listed_are_all_there_are() -> None:
    """The issuer's own pages are not added to a list that leaves them out."""
    found = relying_party("example.com", ["https://app.example.com"], issuer=ISSUER, trusted=[ISSUER])
    assert found == ("example.com", ["https://app.example.com"])


@pytest.mark.parametrize("rp_id", ["https://example.com", "Example.com", "example.com:443", "example.com/", "*.com"])
def test_what_is_no_host_name_is_refused(rp_id: str) -> None:
    """A relying party's id has neither scheme nor port."""
    with pytest.raises(ImproperlyConfigured, match=r"^IRONAUTH_WEBAUTHN_RP_ID must be a host name"):
        relying_party(rp_id, [], issuer=ISSUER, trusted=[])


@pytest.mark.parametrize("origin", ["https://example.org", "https://evil-id.example.com", "https://example.com"])
def test_an_origin_that_browsers_would_refuse_stops_the_start(origin: str) -> None:
    """An origin neither at nor below the host name is a mistake, and named by its place."""
    with pytest.raises(ImproperlyConfigured, match=r"^IRONAUTH_WEBAUTHN_ORIGINS, item 2: its host"):
        relying_party("", [ISSUER, origin], issuer=ISSUER, trusted=[])


def test_an_origin_without_tls_stops_the_start() -> None:
    """The rule of every origin holds for these too."""
    with pytest.raises(ImproperlyConfigured, match=r"^IRONAUTH_WEBAUTHN_ORIGINS, item 1: not an origin"):
        relying_party("", ["http://id.example.com"], issuer=ISSUER, trusted=[])


def test_a_name_that_fits_no_page_stops_the_start() -> None:
    """With it no passkey could ever be used, which would be found out too late."""
    with pytest.raises(ImproperlyConfigured, match=r"^IRONAUTH_WEBAUTHN_RP_ID is neither the host"):
        relying_party("example.org", [], issuer=ISSUER, trusted=["https://app.example.com"])
