"""What start-up accepts from the environment, and the sentence it stops with."""

import base64
import os
import secrets
import sqlite3
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.infrastructure import configuration
from ironauth.infrastructure.configuration import key_ring, required_secret, sqlite_options

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
