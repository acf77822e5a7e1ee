"""What may be used from memory, and when it stops: the freshness rule."""

import time
import timeit

import pytest

from ironauth.infrastructure.cache.memory import L1, RECENT_S, SWEPT, UNKNOWN_ID, Freshness, L1Entry
from ironauth.infrastructure.core import clock

#: A short staleness bound, so that tests need not wait for 5 s.
STALE_S = 0.1


@pytest.fixture
def known() -> Freshness:
    """Knowledge of its own, apart from the process's."""
    return Freshness()


def store(known: Freshness, max_entries: int = 20_000, max_stale_s: float = STALE_S) -> L1:
    """Return an L1 on ``known``."""
    return L1(known, max_entries=max_entries, max_stale_s=max_stale_s)


def entry(value: object = "v", *tags: str, age_s: float = 0, life_s: float = 60) -> L1Entry:
    """Return an entry read ``age_s`` ago."""
    return L1Entry(value, time.monotonic() - age_s, 0, tags, clock.unix() + life_s)


def test_without_a_feed_an_entry_is_used_for_the_bound_and_no_longer(known: Freshness) -> None:
    """An entry is used until it was read ``max_stale_s`` ago, counted from where its reading began."""
    l1 = store(known)
    assert l1.put("young", entry(age_s=STALE_S - 0.05), sequence=0)
    assert l1.put("old", entry(age_s=STALE_S + 0.01), sequence=0)
    assert l1.peek("young") == "v"
    assert l1.peek("old") is None
    time.sleep(0.06)
    assert l1.peek("young") is None


def test_a_synced_feed_keeps_entries_usable(known: Freshness) -> None:
    """While the feed confirms, an old entry lives on; when the feed falls silent it is unused after the bound."""
    l1 = store(known)
    l1.put("k", entry(age_s=1), sequence=0)
    assert l1.peek("k") is None
    known.confirm(time.monotonic(), 7)
    assert l1.peek("k") == "v"
    time.sleep(STALE_S + 0.02)
    assert l1.peek("k") is None
    known.confirm(time.monotonic(), 7)
    assert l1.peek("k") == "v"
    known.stop()
    assert l1.peek("k") is None
    assert known.position is None


def test_an_expired_entry_is_never_used(known: Freshness) -> None:
    """At its exact expiry by the wall clock an entry stops, even freshly confirmed."""
    l1 = store(known, max_stale_s=5)
    l1.put("k", entry(life_s=30), sequence=0)
    with clock.shifted(29):
        assert l1.peek("k") == "v"
    with clock.shifted(30):
        assert l1.peek("k") is None


def test_an_invalidation_drops_what_carries_its_tag(known: Freshness) -> None:
    """Entries with the tag go, in every store; others stay."""
    one, other = store(known), store(known)
    one.put("a", entry("a", "sid:1", "sub:1"), sequence=0)
    one.put("b", entry("b", "sid:2", "sub:1"), sequence=0)
    other.put("c", entry("c", "sid:1"), sequence=0)
    known.apply({"sid:1": 5})
    assert (one.peek("a"), one.peek("b"), other.peek("c")) == (None, "b", None)
    known.apply({"sub:1": 6})
    assert len(one) == len(other) == 0


def test_a_reading_that_an_invalidation_overtook_is_not_kept(known: Freshness) -> None:
    """An entry whose reading began before its tag was invalidated cannot enter; one that began after can."""
    l1 = store(known)
    before = known.sequence
    known.apply({"sid:1": 5})
    assert not l1.put("k", entry("old", "sid:1"), sequence=before)
    assert l1.put("k", entry("other", "sid:2"), sequence=before)
    assert l1.put("k", entry("new", "sid:1"), sequence=known.sequence)


def test_clearing_also_stops_readings_under_way(known: Freshness) -> None:
    """After clear() or a restart of the feed, nothing read before can enter."""
    l1 = store(known)
    l1.put("k", entry(), sequence=0)
    before = known.sequence
    known.clear()
    assert l1.peek("k") is None
    assert not l1.put("k", entry(), sequence=before)
    before = known.sequence
    known.restart(time.monotonic(), 40, 40)
    assert not l1.put("k", entry(), sequence=before)
    assert l1.put("k", entry(), sequence=known.sequence)


def test_a_shared_copy_older_than_a_known_invalidation_is_refused(known: Freshness) -> None:
    """Outdated: read at a position before the tag's invalidation, or before what is remembered; or no feed runs."""
    assert known.outdated((), 100)  # no feed
    known.restart(time.monotonic(), 8, 10)
    assert not known.outdated(("sid:1",), 10)
    assert known.outdated(("sid:1",), 9)  # what happened up to 10 is not known here
    known.apply({"sid:1": 12})
    assert known.outdated(("sid:1",), 11)
    assert not known.outdated(("sid:1",), 12)
    assert not known.outdated(("sid:2",), 11)
    known.apply({"sid:2": UNKNOWN_ID})
    assert known.outdated(("sid:2",), 10**12)


def test_a_message_with_a_made_up_id_cannot_lift_the_memory(known: Freshness) -> None:
    """A later, true invalidation still counts after a message claimed an enormous id for the same tag."""
    l1 = store(known)
    known.restart(time.monotonic(), 10, 10)
    known.apply({"sid:1": 2**63 - 1})
    sequence = known.sequence
    l1.put("k", entry("v", "sid:1"), sequence=sequence)
    known.apply({"sid:1": 11})
    assert l1.peek("k") is None
    assert not l1.put("k", entry("v", "sid:1"), sequence=sequence)


def test_the_size_is_bounded_and_the_oldest_go_first(known: Freshness) -> None:
    """A full store makes room by dropping its oldest entries, and forgets their tags."""
    l1 = store(known, max_entries=128)
    for number in range(1000):
        l1.put(str(number), entry(number, f"tag:{number}"), sequence=0)
        assert len(l1) <= 128
    assert l1.peek("999") == 999
    assert l1.peek("0") is None
    assert len(l1._tags) == len(l1)


def look(known: Freshness) -> None:
    """Let the feed confirm, a while after the last look."""
    known._pruned_at = 0.0
    known.confirm(time.monotonic(), 7)


def test_what_has_expired_does_not_stay_in_memory(known: Freshness) -> None:
    """The feed's next look drops it and forgets its tags; what has a second to live stays."""
    l1 = store(known)
    for number in range(SWEPT):
        l1.put(f"dead {number}", entry(number, f"tag:{number}", life_s=10), sequence=0)
    l1.put("next", entry(life_s=10), sequence=0)
    l1.put("live", entry(life_s=11), sequence=0)
    with clock.shifted(10):
        look(known)
        assert len(l1) == 2
        look(known)
        assert len(l1) == len({"live"})
    assert not l1._tags


def test_replacing_an_entry_replaces_its_tags(known: Freshness) -> None:
    """A key put again answers to its new tags only."""
    l1 = store(known)
    l1.put("k", entry("a", "one"), sequence=0)
    l1.put("k", entry("b", "two"), sequence=0)
    known.apply({"one": 1})
    assert l1.peek("k") == "b"
    known.apply({"two": 2})
    assert l1.peek("k") is None


def test_a_peek_costs_less_than_two_microseconds(known: Freshness) -> None:
    """The warm path is a dictionary and two clocks."""
    l1 = store(known, max_stale_s=60)
    for number in range(10_000):
        l1.put(f"at:{number}", entry(number, "sid:1"), sequence=0)
    best = min(timeit.repeat(lambda: l1.peek("at:5000"), number=2000, repeat=20)) / 2000
    assert best < 2e-6


def test_an_alias_lives_as_long_as_its_entry(known: Freshness) -> None:
    """It finds the entry while that may be used, keeps what was put beside it, and is gone with it."""
    l1 = store(known, max_stale_s=60)
    l1.put("k", entry("v", "a"), sequence=known.sequence)
    value = l1.peek("k")
    l1.add_alias("k", "another", b"d")
    assert l1.find(b"d") is None
    l1.add_alias("k", value, b"d")
    found = l1.find(b"d")
    assert found is not None
    assert found.value is value
    found.beside["x"] = 1
    known.apply({"a": 1})
    assert l1.find(b"d") is None
    l1.put("k", entry(), sequence=known.sequence)
    l1.add_alias("k", l1.peek("k"), b"d")
    again = l1.find(b"d")
    assert again is not None
    assert again.beside == {}
    l1.put("k", entry(life_s=0), sequence=known.sequence)
    assert l1.find(b"d") is None


def test_the_oldest_aliases_make_room(known: Freshness) -> None:
    """A third of the entries may have one; an entry without keeps its place."""
    l1 = store(known, max_entries=9, max_stale_s=60)
    for number in range(5):
        l1.put(str(number), entry(), sequence=known.sequence)
        l1.add_alias(str(number), l1.peek(str(number)), bytes([number]))
    assert [l1.find(bytes([number])) is not None for number in range(5)] == [False, False, True, True, True]
    assert len(l1) == 5


def test_a_reading_that_took_too_long_is_not_kept(known: Freshness) -> None:
    """What was read longer ago than invalidations are remembered may have missed one, and is not kept at all."""
    l1 = store(known, max_stale_s=2 * RECENT_S)
    assert l1.put("late", entry(age_s=RECENT_S + 1), sequence=known.sequence) is False
    assert l1.peek("late") is None
    assert l1.put("in time", entry(age_s=RECENT_S - 1), sequence=known.sequence)
    assert l1.peek("in time") == "v"
