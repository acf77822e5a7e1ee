"""Addresses among the settings: what each may be, on both sides of the line."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config import addresses

LOCAL = [
    "localhost",
    "LOCALHOST",
    "app.localhost",
    ".localhost",
    "testserver",
    "127.0.0.1",
    "127.8.9.1",
    "::1",
    "[::1]",
]
REMOTE = ["id.example.com", ".example.com", "*", "", "10.0.0.1", "0.0.0.0", "[2001:db8::1]", "localhost.example.com"]  # noqa: S104 - a case
REMOTE += ["notlocalhost", "testserver.example.com", "128.0.0.1", "127.0.0.1.nip.io"]


@pytest.mark.parametrize("host", LOCAL)
def test_local_names(host: str) -> None:
    """Loopback addresses, localhost, what is below it, and the test client's host mean this machine."""
    assert addresses.is_local(host)


@pytest.mark.parametrize("host", REMOTE)
def test_names_of_others(host: str) -> None:
    """Everything else may be reached by somebody else."""
    assert not addresses.is_local(host)


ORIGINS = [
    "https://id.example.com",
    "https://id.example.com:8443",
    "https://192.0.2.1",
    "https://[2001:db8::1]:8443",
    "https://xn--bcher-kva.example",
    "https://intranet",
    "http://localhost",
    "http://localhost:8000",
    "http://app.localhost:5173",
    "http://127.0.0.1:8000",
    "http://[::1]:8000",
    "https://localhost",
]
NO_ORIGINS = [
    "garbage",
    "https://",
    "https:",
    "//id.example.com",
    "id.example.com",
    "ftp://id.example.com",
    "https://id.example.com/",
    "https://id.example.com/tenant",
    "https://id.example.com?",
    "https://id.example.com?a=b",
    "https://id.example.com#",
    "https://id.example.com#a",
    "https://user@id.example.com",
    "https://user:hush-hush@id.example.com",
    "https://@id.example.com",
    "https://ID.example.com",
    "HTTPS://id.example.com",
    "https://id.example.com:443",
    "https://id.example.com:",
    "https://id.example.com:0",
    "https://id.example.com:065",
    "https://id.example.com:65536",
    "https://id.example.com:abc",
    "https://id.example.com.",
    "https://.example.com",
    "https://*.example.com",
    "https://id..example.com",
    "https://-id.example.com",
    "https://id_x.example.com",
    "https://id.example.com\n",
    "https://id.exam\tple.com",
    "https://id example.com",
    "https://bücher.example",
    "https://192.0.2.256",
    "https://192.0.2",
    "https://[2001:db8::1",
    "https://[2001:DB8::1]",
    "https://[2001:db8:0::1]",
    "https://[fe80::1%eth0]",
    "https://2001:db8::1",
    "https:\\\\id.example.com",
    "null",
]
INSECURE = ["http://id.example.com", "http://10.0.0.1:8000", "http://localhost.example.com", "http://0.0.0.0:8000"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_origins_are_accepted(origin: str) -> None:
    """Right are https anywhere and plain http on this machine, in the one spelling that browsers use."""
    assert addresses.issuer(origin, "ISSUER") == origin
    assert addresses.origins([origin], "ORIGINS") == [origin]


@pytest.mark.parametrize("origin", [*NO_ORIGINS, *INSECURE])
def test_everything_else_is_no_origin(origin: str) -> None:
    """Another spelling, more than an origin, or plain http elsewhere is refused in one line without the value."""
    with pytest.raises(ImproperlyConfigured) as refused:
        addresses.issuer(origin, "ISSUER")
    assert str(refused.value).startswith("ISSUER must be an https:// origin")
    assert "\n" not in str(refused.value)
    assert "hush-hush" not in str(refused.value)
    with pytest.raises(ImproperlyConfigured, match=r"^ORIGINS, item 2: .*https://app.example.com$") as refused:
        addresses.origins(["https://app.example.com", origin], "ORIGINS")
    assert "hush-hush" not in str(refused.value)


def test_no_issuer() -> None:
    """A missing issuer is named; no trusted origin is fine."""
    with pytest.raises(ImproperlyConfigured, match="ISSUER is missing: set it to"):
        addresses.issuer("", "ISSUER")
    assert addresses.origins([], "ORIGINS") == []


@pytest.mark.parametrize("path", ["", "/range", "/v3/pwned_passwords-1.0/~range"])
@pytest.mark.parametrize("origin", ORIGINS)
def test_range_services_are_accepted(origin: str, path: str) -> None:
    """Right are https anywhere and plain http on this machine, with a plain path or none; nothing is fine as well."""
    assert addresses.range_service(origin + path, "RANGE") == origin + path
    assert addresses.range_service("", "RANGE") == ""


@pytest.mark.parametrize("path", ["/", "/range/", "//range", "/range?", "/range?a=b", "/range#a", "/r%20ge", "/r\nge"])
def test_paths_that_are_not_plain_are_refused(path: str) -> None:
    """What a slash and five characters cannot simply be added to stops the start."""
    with pytest.raises(ImproperlyConfigured, match=r"^RANGE is not an address of a range API"):
        addresses.range_service(f"https://api.example.com{path}", "RANGE")


@pytest.mark.parametrize(
    "origin", [item for item in (*NO_ORIGINS, *INSECURE) if item != "https://id.example.com/tenant"]
)
def test_no_range_service_without_an_origin(origin: str) -> None:
    """An origin of another spelling, or plain http elsewhere, in one line without the value."""
    with pytest.raises(ImproperlyConfigured) as refused:
        addresses.range_service(origin, "RANGE")
    assert str(refused.value).startswith("RANGE ")
    assert ("http is for loopback only" in str(refused.value)) == (origin in INSECURE)
    assert "\n" not in str(refused.value)
    assert "hush-hush" not in str(refused.value)


@pytest.mark.parametrize(
    "host",
    [
        "id.example.com",
        "ID.example.com",
        ".example.com",
        "localhost",
        "testserver",
        "192.0.2.1",
        "[::1]",
        "[2001:db8::1]",
    ],
)
def test_hosts_are_accepted(host: str) -> None:
    """Names, domains with everything below them, and addresses, IPv6 in brackets."""
    assert addresses.hosts([host], "HOSTS") == [host]


@pytest.mark.parametrize(
    "host",
    [
        *(
            "https://id.example.com",
            "id.example.com:8000",
            "id.example.com/",
            "*.example.com",
            "::1",
            "[::1",
            "[::1]:8000",
        ),
        *(
            "192.0.2.256",
            "..example.com",
            ".",
            "id.example.com.",
            "a b",
            "id_x.example.com",
            "bücher.example",
            "[::1%lo]",
        ),
    ],
)
def test_hosts_that_match_nothing_are_refused(host: str) -> None:
    """What no Host header can be equal to would answer 400 to everybody: it stops the start."""
    with pytest.raises(ImproperlyConfigured, match=r"^HOSTS, item 2: not a host name"):
        addresses.hosts(["localhost", host], "HOSTS")


def test_no_host_and_any_host() -> None:
    """No host and * are refused, each with its own remedy."""
    with pytest.raises(ImproperlyConfigured, match="HOSTS is empty: set it to"):
        addresses.hosts([], "HOSTS")
    with pytest.raises(ImproperlyConfigured, match="trusts any Host header: name the hosts"):
        addresses.hosts(["localhost", "*"], "HOSTS")


@pytest.mark.parametrize(
    "item",
    ["10.0.0.0/8", "10.0.0.1", "10.0.0.1/8", "172.16.0.0/12", "192.168.0.0/255.255.0.0", "fc00::/7", "::1", "unix"],
)
def test_networks_are_accepted(item: str) -> None:
    """Addresses, networks up to the widest private ones, and the word for a socket."""
    assert addresses.networks([item], "PROXIES") == [item]


@pytest.mark.parametrize(
    "item",
    [
        "garbage",
        "0.0.0.0/0",
        "::/0",
        "10.0.0.0/7",
        "fc00::/6",
        "10.0.0",
        "10.0.0.1:80",
        "*",
        "[::1]",
        "UNIX",
        "a.example",
    ],
)
def test_networks_that_are_none_or_too_wide_are_refused(item: str) -> None:
    """What is no network would make every request a 500; a wider one would believe strangers."""
    with pytest.raises(ImproperlyConfigured, match=r'^PROXIES, item 2: .* the word "unix"$'):
        addresses.networks(["10.0.0.1", item], "PROXIES")


def test_networks_this_server_may_call() -> None:
    """As those of proxies, less the word for a socket, which nothing can be called at."""
    assert addresses.private_networks(["10.0.0.0/8", "::1"], "LOGOUT") == ["10.0.0.0/8", "::1"]
    for item in ("unix", "0.0.0.0/0", "wiki.local"):
        with pytest.raises(ImproperlyConfigured, match=r"^LOGOUT") as caught:
            addresses.private_networks([item], "LOGOUT")
        assert "prox" not in str(caught.value)
