"""What may be used from memory, and when it stops: the freshness rule."""

import gc
import time
import timeit
import tracemalloc
import uuid

import msgspec
import pytest

from ironauth.infrastructure.cache.memory import (
    BESIDE_BYTES,
    L1,
    MAX_PASSED,
    RECENT_S,
    SWEPT,
    Freshness,
    L1Entry,
)
from ironauth.infrastructure.cache.sizes import held_bytes
from ironauth.infrastructure.core import clock

#: A short staleness bound, so that tests need not wait for 5 s.
STALE_S = 0.1


@pytest.fixture
def known() -> Freshness:
    """Knowledge of its own, apart from the process's."""
    return Freshness()


def store(known: Freshness, max_bytes: int = 32 * 2**20, max_stale_s: float = STALE_S) -> L1:
    """Return an L1 on ``known``."""
    return L1(known, max_bytes=max_bytes, max_stale_s=max_stale_s)


def room_for(count: int, *tags: str) -> int:
    """Return the bytes that so many entries with keys of one letter and these tags take."""
    probe = store(Freshness())
    probe.put("k", entry("v", *tags), sequence=0)
    return count * probe.bytes


def keys_of(l1: L1) -> list[str]:
    """Return the keys of the entries there are, and use none of them."""
    return list(l1._entries)


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
    """A full store makes room by dropping what was not used, the oldest first, and forgets its tags."""
    l1 = store(known, max_bytes=room_for(3, "tag:0"))
    for number in range(10):
        l1.put(str(number), entry("v", f"tag:{number}"), sequence=0)
        assert l1.bytes <= l1.max_bytes
    assert keys_of(l1) == ["7", "8", "9"]
    assert set(l1._tags) == {"tag:7", "tag:8", "tag:9"}
    assert l1.evictions == 7


def test_what_is_used_stays(known: Freshness) -> None:
    """An entry that was used since the last look is passed over once, and goes when it is not used again."""
    l1 = store(known, max_bytes=room_for(3) + BESIDE_BYTES, max_stale_s=60)
    for key in "abc":
        l1.put(key, entry(), sequence=0)
    l1.add_alias("b", l1._entries["b"].value, b"B")
    assert l1.peek("a") == "v"
    assert l1.find(b"B") is not None
    l1.put("d", entry(), sequence=0)
    assert keys_of(l1) == ["a", "b", "d"]
    l1.put("e", entry(), sequence=0)
    assert keys_of(l1) == ["b", "d", "e"]
    l1.put("f", entry(), sequence=0)
    assert keys_of(l1) == ["d", "e", "f"]
    assert l1._aliases == {}


def test_a_look_for_room_is_bounded(known: Freshness) -> None:
    """Where all have been used, so many are passed over and the next one goes: no request waits for a whole round."""
    count = MAX_PASSED + 1
    l1 = store(known, max_bytes=room_for(count), max_stale_s=60)
    for number in range(count):
        l1.put(chr(1_000 + number), entry(), sequence=0)
        l1.peek(chr(1_000 + number))
    l1.put("x", entry(), sequence=0)
    gone = {chr(1_000 + number) for number in range(count)} - set(keys_of(l1))
    assert gone == {chr(1_000 + MAX_PASSED)}


def test_what_has_expired_makes_room_before_what_was_used(known: Freshness) -> None:
    """A used entry that has expired goes first, and is none that had to make room."""
    l1 = store(known, max_bytes=room_for(2), max_stale_s=60)
    l1.put("a", entry(life_s=10), sequence=0)
    l1.put("b", entry(), sequence=0)
    l1.peek("a")
    with clock.shifted(10):
        l1.put("c", entry(), sequence=0)
    assert keys_of(l1) == ["b", "c"]
    assert l1.evictions == 0


def test_what_is_larger_than_all_room_is_not_kept(known: Freshness) -> None:
    """An entry as large as the bound is kept, one byte less of room keeps nothing and drops nothing."""
    for missing in (0, 1):
        l1 = store(known, max_bytes=room_for(1) - missing)
        assert l1.put("k", entry(), sequence=0) is not bool(missing)
        assert len(l1) == 1 - missing


def test_bytes_are_given_back_in_every_way(known: Freshness) -> None:
    """Ended, replaced, expired, cleared: what an entry took is free again, with what was kept beside it."""
    l1 = store(known, max_stale_s=60)

    def fill(value: object = "v", life_s: float = 60) -> int:
        l1.put("k", entry(value, "sid:1", life_s=life_s), sequence=known.sequence)
        l1.add_alias("k", l1.peek("k"), b"d")
        l1.keep_beside(b"d", "answer", b"x", 1_000)
        return l1.bytes

    assert fill() == room_for(1, "sid:1") + BESIDE_BYTES + 1_000
    assert fill() == fill()
    assert fill("v" * 500) > fill()
    known.apply({"sid:1": 1})
    assert l1.bytes == 0
    l1.keep_beside(b"d", "answer", b"x", 1_000)
    assert l1.bytes == 0
    fill(life_s=10)
    with clock.shifted(10):
        look(known)
    assert l1.bytes == 0
    fill()
    known.clear()
    assert l1.bytes == 0


def test_answers_beside_make_room_too(known: Freshness) -> None:
    """What is kept beside an entry counts: where it does not fit, older entries go."""
    l1 = store(known, max_bytes=room_for(3) + BESIDE_BYTES, max_stale_s=60)
    for key in "abc":
        l1.put(key, entry(), sequence=0)
    l1.add_alias("c", l1._entries["c"].value, b"C")
    assert keys_of(l1) == ["a", "b", "c"]
    l1.keep_beside(b"C", "answer", b"x", 1)
    assert keys_of(l1) == ["b", "c"]
    assert l1.bytes <= l1.max_bytes


class Held(msgspec.Struct, frozen=True, gc=False):
    """A value like a verified token's."""

    id: uuid.UUID
    email: str
    roles: tuple[str, ...]
    exp: int
    digest: bytes


@pytest.mark.parametrize("beside", [False, True])
def test_the_bound_in_bytes_holds(known: Freshness, beside: bool) -> None:
    """What a full store really takes, by the allocator, is no more than the bound, and not much less."""
    l1 = store(known, max_bytes=4 * 2**20, max_stale_s=60)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(6_000):
            value = Held(uuid.uuid4(), f"person-{number}@example.com", ("staff",), 10**9 + number, number.to_bytes(32))
            l1.put(f"at:{number}", entry(value, f"sid:{value.id}", f"sub:{value.id.hex}", "kid:1"), sequence=0)
            if beside:
                l1.add_alias(f"at:{number}", value, value.digest)
                l1.keep_beside(value.digest, "answer", bytes(500), 533)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert l1.evictions > 1_000
    assert 0.7 * l1.max_bytes < taken <= l1.max_bytes


def test_values_alike_are_measured_once() -> None:
    """A value counts with all that it holds; what every process has anyway does not."""
    few = Held(uuid.uuid4(), "m@example.com", (), 10**9, bytes(32))
    many = Held(uuid.uuid4(), "m@example.com", tuple(f"role {number}" for number in range(40)), 10**9, bytes(32))
    assert held_bytes(few) == held_bytes(Held(uuid.uuid4(), "n@example.com", (), 10**9, bytes(32)))
    assert held_bytes(many) > held_bytes(few) + 40 * 50
    assert held_bytes(None) == held_bytes(True) == 0
    assert held_bytes({"k": "v" * 100}) > 200
    assert held_bytes(object()) < 100 < held_bytes((object(), "v" * 100))


def look(known: Freshness) -> None:
    """Let the feed confirm, a while after the last look."""
    known._swept_at = 0.0
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
    l1.keep_beside(b"d", "x", 1, 10)
    assert found.beside == {"x": 1}
    known.apply({"a": 1})
    assert l1.find(b"d") is None
    l1.put("k", entry(), sequence=known.sequence)
    l1.add_alias("k", l1.peek("k"), b"d")
    again = l1.find(b"d")
    assert again is not None
    assert again.beside == {}
    l1.put("k", entry(life_s=0), sequence=known.sequence)
    assert l1.find(b"d") is None


def test_a_reading_that_took_too_long_is_not_kept(known: Freshness) -> None:
    """What was read longer ago than invalidations are remembered may have missed one, and is not kept at all."""
    l1 = store(known, max_stale_s=2 * RECENT_S)
    assert l1.put("late", entry(age_s=RECENT_S + 1), sequence=known.sequence) is False
    assert l1.peek("late") is None
    assert l1.put("in time", entry(age_s=RECENT_S - 1), sequence=known.sequence)
    assert l1.peek("in time") == "v"


def test_the_garbage_collector_does_not_walk_entries(known: Freshness) -> None:
    """However many there are, with one session each or several: a full round walks as many objects as before."""
    l1 = store(known, max_stale_s=60)
    gc.collect()
    before = len(gc.get_objects())
    for number in range(500):
        person = uuid.uuid4()
        for again in range(1 + number % 2):
            value = Held(person, "p@example.com", ("staff",), 10**9, f"{number} {again}".encode())
            key = f"at:{number}:{again}"
            l1.put(key, entry(value, f"sid:{person}", "kid:1"), sequence=0)
            l1.add_alias(key, value, value.digest)
            l1.keep_beside(value.digest, ("GET", f"/{number}", "https"), bytes(10), 43)
    gc.collect()
    assert len(l1) == 750
    assert len(gc.get_objects()) < before + 20
    l1.remove_tag(f"sid:{person}")
    assert len(l1) == 748
    l1.remove_tag("kid:1")
    assert not len(l1)
    assert not l1._tags
