"""The client's address comes from configured proxies only."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory, override_settings

from ironauth.infrastructure.http.client_context import (
    client_address,
    client_network,
    client_site,
    with_forwarded_scheme,
)

PROXIES = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", ""),
    ],
)
def test_what_counts_as_one_client(address: str, network: str) -> None:
    """An IPv4 address, or the /64 around an IPv6 one; nothing for what is no address."""
    assert client_network(address) == network


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::", "2001:db8:1::/48"),
        ("2001:db8:2::", "2001:db8:2::/48"),
        ("203.0.113.9", ""),
        ("::ffff:203.0.113.9", ""),
        ("", ""),
    ],
)
def test_what_one_customer_may_rent(address: str, site: str) -> None:
    """The /48 around an IPv6 address; nothing for IPv4, also in IPv6 clothing, and for what is no address."""
    assert client_site(address) == site


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "expected"),
    [
        ([], "203.0.113.9", "1.2.3.4", "203.0.113.9"),  # nobody is trusted
        (PROXIES, "203.0.113.9", "1.2.3.4", "203.0.113.9"),  # the peer is not a proxy
        (PROXIES, "10.1.1.1", "", "10.1.1.1"),  # a proxy that says nothing
        (PROXIES, "10.1.1.1", "1.2.3.4", "1.2.3.4"),
        (PROXIES, "10.1.1.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),  # the left one may be forged
        (PROXIES, "10.1.1.1", "6.6.6.6, 1.2.3.4, 192.0.2.1, 10.2.2.2", "1.2.3.4"),
        (PROXIES, "10.1.1.1", "10.3.3.3, 10.2.2.2", "10.3.3.3"),  # proxies all the way
        (PROXIES, "10.1.1.1", "6.6.6.6, unknown", "10.1.1.1"),
        (PROXIES, "10.1.1.1", "6.6.6.6, evil\r\n, 10.2.2.2", "10.2.2.2"),
        (PROXIES, "10.1.1.1", "1.2.3.4:5678", "1.2.3.4"),
        (PROXIES, "2001:db8::1", "[2a00::1]:443", "2a00::1"),
        (PROXIES, "::ffff:10.1.1.1", "1.2.3.4", "1.2.3.4"),
        (PROXIES, "10.1.1.1", "::ffff:1.2.3.4", "1.2.3.4"),
        (["unix"], "", "1.2.3.4", "1.2.3.4"),
        (["unix"], "", "", ""),
        (["unix"], "10.1.1.1", "1.2.3.4", "10.1.1.1"),
        (PROXIES, "", "1.2.3.4", ""),  # a socket peer that is not trusted
    ],
)
def test_the_right_most_untrusted_hop_is_the_client(
    proxies: list[str], peer: str, forwarded: str, expected: str
) -> None:
    """The same answer from a Django request and from an ASGI scope."""
    request = RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded)
    scope = {
        "client": (peer, 1) if peer else None,
        "headers": [(b"x-forwarded-for", part.encode()) for part in forwarded.split(",") if forwarded],
    }
    with override_settings(IRONAUTH_TRUSTED_PROXIES=proxies):
        assert client_address(request) == expected
        assert client_address(scope) == expected


def test_a_bad_setting_names_itself() -> None:
    """A word that is no network is refused."""
    bad = override_settings(IRONAUTH_TRUSTED_PROXIES=["localhost"])
    with bad, pytest.raises(ImproperlyConfigured, match="IRONAUTH_TRUSTED_PROXIES"):
        client_address(RequestFactory().get("/"))


@pytest.mark.parametrize(
    ("peer", "said", "expected"),
    [
        ("10.1.1.1", [b"https"], "https"),
        ("10.1.1.1", [b"http"], "http"),
        ("10.1.1.1", [b"https", b"http"], "http"),  # two proxies that disagree: believe neither
        ("10.1.1.1", [], "http"),
        ("203.0.113.9", [b"https"], "http"),  # not a configured proxy
    ],
)
def test_only_a_configured_proxy_says_that_the_client_used_https(peer: str, said: list[bytes], expected: str) -> None:
    """X-Forwarded-Proto is believed from a trusted peer only."""
    scope = {
        "scheme": "http",
        "client": (peer, 1),
        "headers": [(b"x-forwarded-proto", value) for value in said],
    }
    with override_settings(IRONAUTH_TRUSTED_PROXIES=PROXIES):
        assert with_forwarded_scheme(scope)["scheme"] == expected
