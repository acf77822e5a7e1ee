"""What a process knows about invalidations, and which copies from elsewhere that lets it believe."""

import time

import pytest

from ironauth.infrastructure.cache import memory
from ironauth.infrastructure.cache.memory import L1, RECENT_S, UNKNOWN_ID, Freshness, L1Entry
from ironauth.infrastructure.core import clock


@pytest.fixture
def known() -> Freshness:
    """Knowledge of its own, apart from the process's."""
    return Freshness()


def test_a_shared_copy_older_than_a_known_invalidation_is_refused(known: Freshness) -> None:
    """Outdated: read at a position before the tag's invalidation, or before what is remembered; or no feed runs."""
    later = time.monotonic() + 60  # by its time nothing is refused
    assert known.outdated((), 100, later)  # no feed
    known.restart(time.monotonic(), 8, 10)
    assert not known.outdated(("sid:1",), 10, later)
    assert known.outdated(("sid:1",), 9, later)  # what happened up to 10 is not known here
    known.apply({"sid:1": 12})
    assert known.outdated(("sid:1",), 11, later)
    assert not known.outdated(("sid:1",), 12, later)
    assert not known.outdated(("sid:2",), 11, later)
    known.apply({"sid:2": UNKNOWN_ID})
    assert known.outdated(("sid:2",), 10**12, later)


def test_a_shared_copy_that_was_read_before_is_refused_whatever_its_position(known: Freshness) -> None:
    """Positions of another table say nothing: what was read before the feed started, or the tag was dropped, is old."""
    known.restart(time.monotonic(), 500, 500)
    start = known._reaches_at
    assert known.outdated((), 900, start)
    assert not known.outdated((), 900, start + 1e-6)
    known.apply({"sid:1": 501})
    at = known._recent["sid:1"].at
    assert known.outdated(("sid:1",), 900, at)
    assert not known.outdated(("sid:1",), 900, at + 1e-6)
    assert not known.outdated(("sid:2",), 900, at)


def test_what_is_forgotten_is_refused(known: Freshness, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalidation is remembered for so long; afterwards no copy from before it is believed, whatever its tags."""
    real = time.monotonic
    known.restart(real(), 10, 10)
    known.apply({"sid:1": 12})
    at = known._recent["sid:1"].at
    monkeypatch.setattr("time.monotonic", lambda: at + RECENT_S)
    known.confirm(at, 12)
    assert not known.outdated(("sid:2",), 11, at)
    monkeypatch.setattr("time.monotonic", lambda: at + RECENT_S + 1)
    known.confirm(at, 12)
    assert not known._recent
    assert known.outdated(("sid:2",), 11, at + 60)
    assert known.outdated(("sid:2",), 12, at)
    assert not known.outdated(("sid:2",), 12, at + 60)


def test_one_that_the_feed_has_not_read_yet_is_forgotten_by_its_time(known: Freshness) -> None:
    """Its id lies beyond the position, and may be made up: what was read before it became known is refused."""
    known.restart(time.monotonic(), 900, 900)
    known.apply({"sid:1": 950})
    at = known._recent["sid:1"].at
    known._prune(at + RECENT_S + 1)
    assert not known._recent
    assert known.outdated(("sid:1",), 920, at)
    assert not known.outdated(("sid:1",), 920, at + 1e-6)


def test_so_many_are_remembered(known: Freshness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than fit forgets the oldest: copies and readings from before that one are not kept."""
    monkeypatch.setattr(memory, "MAX_RECENT", 3)
    l1 = L1(known, max_bytes=2**20, max_stale_s=60)

    def entry() -> L1Entry:
        return L1Entry("v", time.monotonic(), 0, ("other",), clock.unix() + 60)

    known.restart(time.monotonic(), 10, 10)
    before = known.sequence
    later = time.monotonic() + 60
    for number in (11, 12, 13):
        known.apply({f"sid:{number}": number})
    known.confirm(time.monotonic(), 13)
    assert not known.outdated(("other",), 10, later)
    assert l1.put("k", entry(), sequence=before)
    known.apply({"sid:12": 14, "sid:14": 15})
    assert list(known._recent) == ["sid:13", "sid:12", "sid:14"]
    assert known.outdated(("other",), 10, later)
    assert not known.outdated(("other",), 11, later)
    assert not l1.put("k", entry(), sequence=before)
    assert l1.put("k", entry(), sequence=known.sequence)


def test_a_feed_is_current_for_the_bound(known: Freshness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is while its last reading began so many seconds ago at most, and not where none runs."""
    monkeypatch.setattr("time.monotonic", lambda: 1_000.0)
    assert not known.is_current(5)
    known.confirm(995.0, 7)
    assert known.is_current(5)
    known.confirm(994.99, 7)
    assert not known.is_current(5)
    known.confirm(1_000.0, 7)
    known.stop()
    assert not known.is_current(5)
