"""What start-up accepts from the environment, and the sentence it stops with."""

import base64
import os
import secrets
import sqlite3
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config import checks as configuration
from ironauth.config.checks import (
    audience,
    key_ring,
    refuse_exposed_shortcuts,
    refuse_idle_beyond_absolute,
    refuse_missing_laboratory,
    refuse_weak_argon2,
    required_secret,
    sqlite_options,
)

GOOD = secrets.token_urlsafe(32)  # 43 characters
KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()


def test_hash_threads_follow_the_affinity() -> None:
    """The default is one hash thread for each usable CPU, and never more than 4."""
    assert configuration.default_hash_threads() == min(len(os.sched_getaffinity(0)), 4)


def test_database_threads_are_between_two_and_eight() -> None:
    """The default is two database threads for each usable CPU, from 2 to 8."""
    assert configuration.default_database_threads() == min(max(2 * len(os.sched_getaffinity(0)), 2), 8)


def test_a_secret_of_256_bits_is_accepted() -> None:
    """43 base64url characters (32 random bytes) are accepted and returned unchanged."""
    assert required_secret(GOOD, "SECRET_KEY") == GOOD


@pytest.mark.parametrize(
    "value",
    [
        "",
        GOOD[:42],
        "x" * 64,
        "ab" * 32,
        "django-insecure-" + GOOD,
        "change-me-" + GOOD,
        "ChangeMe" + GOOD,
        "my-very-own-secret-key-that-is-long-enough-to-pass",
    ],
)
def test_weak_secrets_stop_the_start(value: str) -> None:
    """A missing, short, repeated or placeholder secret is refused with its name and a remedy, never its value."""
    with pytest.raises(ImproperlyConfigured) as refused:
        required_secret(value, "SECRET_KEY")
    message = str(refused.value)
    assert "SECRET_KEY" in message
    assert "secrets.token_urlsafe" in message
    assert not value or value not in message


def test_key_ring_keeps_the_order() -> None:
    """The newest key stays first, and padding is optional."""
    other = secrets.token_urlsafe(32)
    assert list(key_ring([f"k2:{KEY}", f" k1:{other}"], "KEYS", required=True).items()) == [
        ("k2", bytes(range(32))),
        ("k1", base64.urlsafe_b64decode(other + "=")),
    ]
    assert key_ring(["a:" + KEY.rstrip("=")], "KEYS", required=True) == {"a": bytes(range(32))}


def test_empty_ring() -> None:
    """No key is fine where a ring is optional and stops the start where it is required."""
    assert key_ring([], "KEYS", required=False) == {}
    with pytest.raises(ImproperlyConfigured, match="KEYS is missing: set KEYS to"):
        key_ring([], "KEYS", required=True)


@pytest.mark.parametrize(
    "items",
    [
        [KEY],
        [f":{KEY}"],
        [f"K1:{KEY}"],
        [f"{'a' * 17}:{KEY}"],
        ["k1:" + base64.urlsafe_b64encode(secrets.token_bytes(31)).decode()],
        ["k1:" + base64.urlsafe_b64encode(secrets.token_bytes(33)).decode()],
        ["k1:" + base64.urlsafe_b64encode(b"\0" * 32).decode()],
        ["k1:" + "é" * 43],
        ["k1:" + KEY[:20] + "!" + KEY[20:]],
        ["k1:" + "not-base64-enough"],
        [f"k1:{KEY}", f"k1:{secrets.token_urlsafe(32)}"],
        [f"k1:{KEY}", f"k2:{KEY}"],
    ],
)
def test_malformed_rings_stop_the_start(items: list[str]) -> None:
    """A bad id, a key that is not 32 random bytes, or a repetition is refused by name, without the key's text."""
    with pytest.raises(ImproperlyConfigured) as refused:
        key_ring(items, "IRONAUTH_MASTER_KEYS", required=True)
    message = str(refused.value)
    assert message.startswith(f"IRONAUTH_MASTER_KEYS, item {len(items)}: ")
    assert "secrets.token_urlsafe(32)" in message
    assert items[-1].partition(":")[2] not in message or not items[-1].partition(":")[2]


def test_sqlite_options_take_effect(tmp_path: Path) -> None:
    """The start-up commands make a real connection WAL with full synchronisation, and writes begin IMMEDIATE."""
    options = sqlite_options(2.0)
    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] == 2.0
    connection = sqlite3.connect(tmp_path / "test.sqlite3")
    for command in str(options["init_command"]).split(";"):
        connection.execute(command)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.close()


@pytest.mark.parametrize("value", ["https://id.example.com", "a", "x" * 255, "!~"])
def test_audiences(value: str) -> None:
    """1 to 255 visible ASCII characters are accepted unchanged."""
    assert audience(value, "AUDIENCE") == value


@pytest.mark.parametrize("value", ["", "x" * 256, "a b", "a\n", "a\x7f", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_no_audience(value: str) -> None:
    """Nothing, too much, spaces, control characters and other scripts are refused in one line."""
    with pytest.raises(ImproperlyConfigured, match=r"\AAUDIENCE must have 1 to 255 visible ASCII characters [^\n]*\Z"):
        audience(value, "AUDIENCE")


LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver", "app.localhost"]


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("cookie_secure", [True, False])
@pytest.mark.parametrize("issuer", ["http://127.0.0.1:8000", "http://localhost", "https://localhost", "http://[::1]:1"])
def test_shortcuts_on_this_machine(*, debug: bool, cookie_secure: bool, issuer: str) -> None:
    """DEBUG and cookies without Secure are fine where issuer and hosts are loopback."""
    refuse_exposed_shortcuts(debug=debug, cookie_secure=cookie_secure, issuer=issuer, allowed_hosts=LOCAL_HOSTS)


@pytest.mark.parametrize(
    ("debug", "cookie_secure", "named"),
    [(True, True, "DEBUG=1"), (True, False, "DEBUG=1"), (False, False, "IRONAUTH_COOKIE_SECURE=0")],
)
@pytest.mark.parametrize(
    ("issuer", "hosts", "where"),
    [
        ("https://id.example.com", LOCAL_HOSTS, "IRONAUTH_ISSUER"),
        ("https://localhost.example.com", LOCAL_HOSTS, "IRONAUTH_ISSUER"),
        ("https://192.0.2.1", LOCAL_HOSTS, "IRONAUTH_ISSUER"),
        ("http://localhost:8000", [*LOCAL_HOSTS, "id.example.com"], "ALLOWED_HOSTS"),
        ("http://localhost:8000", [".example.com"], "ALLOWED_HOSTS"),
        ("https://id.example.com", ["id.example.com"], "IRONAUTH_ISSUER"),
    ],
)
def test_shortcuts_that_others_could_reach(
    *, debug: bool, cookie_secure: bool, named: str, issuer: str, hosts: list[str], where: str
) -> None:
    """Either is refused as soon as the issuer or one host is not this machine, naming both settings."""
    with pytest.raises(ImproperlyConfigured) as refused:
        refuse_exposed_shortcuts(debug=debug, cookie_secure=cookie_secure, issuer=issuer, allowed_hosts=hosts)
    assert str(refused.value).startswith(f"{named} is for this machine alone, but {where} names another: set ")


def test_production_takes_no_shortcut() -> None:
    """Without DEBUG and with Secure cookies any issuer and host are fine."""
    refuse_exposed_shortcuts(
        debug=False, cookie_secure=True, issuer="https://id.example.com", allowed_hosts=["id.example.com"]
    )


def test_idle_is_at_most_absolute() -> None:
    """Equal is allowed, a second more is not."""
    refuse_idle_beyond_absolute(idle_s=3_600, absolute_s=3_600)
    with pytest.raises(ImproperlyConfigured, match=r"\AIRONAUTH_SESSION_IDLE_S=3601 is longer than .*=3600"):
        refuse_idle_beyond_absolute(idle_s=3_601, absolute_s=3_600)


@pytest.mark.parametrize(("passes", "kib"), configuration.ARGON2_FLOORS)
def test_argon2_floors(passes: int, kib: int) -> None:
    """Each pair of the OWASP table is accepted, a KiB less is not."""
    refuse_weak_argon2(time_cost=passes, memory_kib=kib, parallelism=1)
    with pytest.raises(ImproperlyConfigured, match="IRONAUTH_ARGON2_MEMORY_KIB"):
        refuse_weak_argon2(time_cost=passes, memory_kib=kib - 1, parallelism=1)


def test_the_laboratory_must_be_there_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout has it; the container image has not, and refuses its endpoints, and only those."""
    refuse_missing_laboratory(wanted=True)
    monkeypatch.delitem(sys.modules, "perf.urls", raising=False)
    monkeypatch.setitem(sys.modules, "perf", None)  # as if there were no such folder
    refuse_missing_laboratory(wanted=False)
    with pytest.raises(
        ImproperlyConfigured, match=r"\AIRONAUTH_PERF_ENDPOINTS=1 needs the folder perf/.*remove the var"
    ):
        refuse_missing_laboratory(wanted=True)
