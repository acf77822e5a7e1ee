"""What a process knows about invalidations, and which copies from elsewhere that lets it believe."""

import time
from collections.abc import Callable

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


def test_a_position_that_stands_still_hides_no_row_that_was_read(known: Freshness) -> None:
    """A long transaction holds it at 50, and row 105 was read: what was read before that row stays refused.

    An invented id, or one that is not known, does not refuse what is read at the next position.
    """
    later = time.monotonic() + 10 * RECENT_S  # by its time nothing is refused
    known.restart(time.monotonic(), 50, 50)
    known.apply({"sid:1": 105})
    assert known.outdated(("sid:1",), 50, later)
    known._prune(known._recent["sid:1"].at + RECENT_S + 1)
    assert not known._recent
    assert known.outdated(("sid:1",), 50, later)
    assert not known.outdated(("sid:1",), 51, later)
    known.apply({"kid:1": UNKNOWN_ID})
    known.confirm(time.monotonic(), 60)
    known._prune(known._recent["kid:1"].at + RECENT_S + 1)
    assert known.outdated((), 59, later)
    assert not known.outdated((), 60, later)


# ---------------------------------------------------------------- a reader while something is dropped
class Watched(L1):
    """A store that does what the event loop would, when it gets the interpreter while entries are being dropped."""

    meanwhile: Callable[[], None] | None = None

    def remove_tag(self, tag: str) -> None:
        """Let the other one in before and after."""
        self._let_in()
        super().remove_tag(tag)
        self._let_in()

    def remove_all(self) -> None:
        """Let the other one in before and after."""
        self._let_in()
        super().remove_all()
        self._let_in()

    def _let_in(self) -> None:
        if self.meanwhile is not None:
            self.meanwhile()


def entry(*tags: str) -> L1Entry:
    """Return one that was read just now."""
    return L1Entry("v", time.monotonic(), 0, tags, clock.unix() + 60)


@pytest.mark.parametrize("drop", ["apply", "clear", "restart"])
def test_who_begins_while_entries_are_dropped_keeps_nothing_of_them(known: Freshness, drop: str) -> None:
    """It may have seen an entry that was not removed yet: its mark is one of before, for each of the tags."""
    l1 = Watched(known, max_bytes=2**20, max_stale_s=60)
    known.restart(time.monotonic(), 900, 900)
    assert l1.put("client", entry("client:1"), sequence=known.sequence)
    before, marks = known.sequence, []
    l1.meanwhile = lambda: marks.append((known.sequence, known.position))
    if drop == "apply":
        known.apply({"client:1": 901, "client:2": 902})
    elif drop == "clear":
        known.clear()
    else:
        known.restart(time.monotonic(), 10, 10)
    l1.meanwhile = None
    assert set(marks) == {(before, 900)}
    assert not l1.put("token", entry("client:1"), sequence=before)
    assert not l1.put("token", entry("client:2"), sequence=before)
    assert l1.put("other", entry("client:3"), sequence=before) is (drop == "apply")
    assert known.sequence > before
    assert l1.put("token", entry("client:1"), sequence=known.sequence)


def test_nothing_is_kept_beside_an_entry_after_a_drop_that_was_under_way(known: Freshness) -> None:
    """What an answer was made of may be what is being dropped: it is compared under the lock, too."""
    l1 = Watched(known, max_bytes=2**20, max_stale_s=60)
    value = entry("sid:1")
    l1.put("token", value, sequence=known.sequence)
    l1.add_alias("token", value.value, b"a")
    began = known.sequence
    known.apply({"client:1": 11})
    l1.keep_beside(b"a", "question", "answer", 10, sequence=began)
    assert value.beside == {}
    l1.keep_beside(b"a", "question", "answer", 10, sequence=known.sequence)
    assert value.beside == {"question": "answer"}


def test_a_feed_is_current_for_the_bound(known: Freshness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is while its last reading began so many seconds ago at most, and not where none runs."""
    monkeypatch.setattr("time.monotonic", lambda: 1_000.0)
    assert not known.is_current(5)
    known.confirm(994.99, 7)
    assert not known.is_current(5)
    known.confirm(995.0, 7)
    assert known.is_current(5)
    known.confirm(1_000.0, 7)
    known.stop()
    assert not known.is_current(5)


def test_a_reading_that_ends_late_takes_nothing_back(known: Freshness) -> None:
    """Of two readings at once the one that began later counts, whichever ends first; after a stop any counts."""
    now = time.monotonic()
    known.confirm(now, 12)
    known.confirm(now - 1, 9)
    assert (known.synced_at, known.position) == (now, 12)
    known.confirm(now, 13)
    known.confirm(now + 1, 14)
    assert (known.synced_at, known.position) == (now + 1, 14)
    known.stop()
    known.confirm(now - 1, 9)
    assert (known.synced_at, known.position) == (now - 1, 9)
