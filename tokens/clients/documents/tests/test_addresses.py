"""Names of clients that are addresses."""

import pytest
from pytest_django import Settings

from tokens.clients.documents import addresses

GOOD = "https://agent.example.com/client.json"


@pytest.mark.parametrize(
    "text",
    [GOOD, "https://agent.example.com/", "https://agent.example.com:8443/a/b", "https://agent.example.com/c?v=2"],
)
def test_accepted(text: str) -> None:
    """Https, a host with a dot, and a path."""
    assert addresses.is_accepted(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "https://", "https://agent.example.com", "http://agent.example.com/c", "HTTPS://agent.example.com/c",
        "https://Agent.example.com/c", "https://agent.example.com/c#x", "https://me@agent.example.com/c",
        "https://me:pw@agent.example.com/c", "https://agent.example.com/../c", "https://agent.example.com/a/./c",
        "https://agent.example.com/%2e%2e/c", "https://agent.example.com//c", "https://agent.example.com/c\n",
        "https://agent.example.com\\@evil.example.com/c", "https://agent.example.com:0/c", "https://localhost/c",
        "https://a.localhost/c", "https://127.0.0.1/c", "https://[::1]/c", "https://[::ffff:7f00:1]/c",
        "https://169.254.169.254/c", "https://8.8.8.8/c", "https://2130706433/c", "https://0x7f.1/c",
        "https://017700000001/c", "https://intranet/c", "https://agent.example.com/é", "javascript:alert(1)",
        "file:///etc/passwd", f"https://agent.example.com/{'a' * 475}", "https://*.example.com/c",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    """Whatever has two spellings, names a user, or is no public name in the first place."""
    assert not addresses.is_accepted(text)


def test_longest() -> None:
    """500 characters, and not one more."""
    head = "https://agent.example.com/"
    assert addresses.is_accepted(head + "a" * (500 - len(head)))
    assert not addresses.is_accepted(head + "a" * (501 - len(head)))


@pytest.mark.parametrize(
    ("allowed", "blocked", "accepted"),
    [
        ([], [], True),
        (["agent.example.com"], [], True),
        ([".example.com"], [], True),
        (["example.com"], [], False),
        ([".agent.example.com"], [], False),
        (["ample.com"], [], False),
        ([], ["agent.example.com"], False),
        ([".example.com"], [".example.com"], False),
        ([], ["other.example.com"], True),
    ],
)
def test_hosts(settings: Settings, allowed: list[str], blocked: list[str], accepted: bool) -> None:
    """Those that operators allow, less those that they block."""
    settings.IRONAUTH_CLIENT_DOCUMENT_HOSTS = allowed
    settings.IRONAUTH_CLIENT_DOCUMENT_BLOCKED_HOSTS = blocked
    assert addresses.is_accepted(GOOD) is accepted


def test_one_row_for_an_address() -> None:
    """The same for the same text, another for any other, and none that this server gives to others."""
    assert addresses.id_of(GOOD) == addresses.id_of(GOOD) != addresses.id_of(GOOD + "/")
    assert addresses.id_of(GOOD).version == 8
