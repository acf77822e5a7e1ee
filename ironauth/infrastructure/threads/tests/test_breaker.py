"""An outage of Redis is met once, tried once a second, and told once."""

import time

import structlog

from ironauth.infrastructure.threads.circuit_breaker import PAUSE_S, Breaker


def test_an_outage_lets_one_caller_through_per_pause() -> None:
    """After a failure nobody may try for the pause; then exactly one may, until it has succeeded."""
    breaker = Breaker("thing")
    assert all(breaker.allows() for _ in range(10))
    breaker.failed(OSError("gone"))
    assert not any(breaker.allows() for _ in range(10))
    time.sleep(PAUSE_S + 0.05)
    assert [breaker.allows() for _ in range(10)] == [True] + [False] * 9
    breaker.succeeded()
    assert all(breaker.allows() for _ in range(10))


def test_an_outage_is_logged_once_at_each_end() -> None:
    """However many callers fail: one warning, one recovery, and the number of failures."""
    breaker = Breaker("thing")
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            breaker.failed(OSError("gone"))
        breaker.succeeded()
        breaker.succeeded()
    assert [line["event"] for line in lines] == ["thing_lost", "thing_recovered"]
    assert breaker.failures == lines[1]["failures"] == 5


def test_unusable_answers_are_counted_and_warned_about_once_a_minute() -> None:
    """Garbage is no outage, and cannot flood the log."""
    breaker = Breaker("thing")
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            breaker.unusable(ValueError("garbage"))
    assert [line["event"] for line in lines] == ["thing_unusable"]
    assert breaker.unusable_answers == 5
    assert not breaker.is_open
