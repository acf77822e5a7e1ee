"""The feed misses no row, although ids become visible out of order on PostgreSQL."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction

from ironauth.infrastructure.cache import gap_tracker as module
from ironauth.infrastructure.cache.gap_tracker import GAP_MIN_S, GapTracker, Page, read_page
from ironauth.infrastructure.models import Invalidation

storage = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
only_postgres = pytest.mark.only_postgres


def page(*ids: int, newest: int = 0, restarted: bool = False, ended: int = 0, fence: int = 0) -> Page:
    """Return a page with rows of these ids."""
    return Page(tuple((i, f"t{i}") for i in ids), max((*ids, newest)), restarted, ended, fence)


def started(newest: int) -> GapTracker:
    """Return a history that has read up to ``newest`` without gaps."""
    history = GapTracker()
    history.advance(page(newest=newest, restarted=True), 0)
    return history


def test_rows_in_order_move_the_position() -> None:
    """Without gaps everything read is settled at once; the row read again is not new."""
    history = started(5)
    assert history.advance(page(5, 6, 7), 1) == [(6, "t6"), (7, "t7")]
    assert (history.position, history.newest) == (7, 7)
    assert history.advance(page(7), 2) == []


def test_a_skipped_id_holds_the_position_until_it_appears() -> None:
    """A gap is asked for again; when its row shows up it is applied and the position moves on."""
    history = started(5)
    assert history.advance(page(5, 8, fence=100), 1) == [(8, "t8")]
    assert (history.position, history.gaps) == (5, (6, 7))
    assert history.advance(page(6, 8, ended=50), 2) == [(6, "t6")]
    assert history.position == 6
    assert history.advance(page(7, 8, 9, ended=50), 60) == [(7, "t7"), (9, "t9")]
    assert history.position == 9


def test_a_gap_ends_when_every_transaction_of_its_time_has_ended() -> None:
    """However long it takes: a gap is given up only past its fence, and not in the first moments."""
    history = started(5)
    history.advance(page(5, 7, fence=100), 1)
    history.advance(page(7, ended=99), 1_000_000)
    assert history.position == 5
    history.advance(page(7, ended=100), 1 + GAP_MIN_S - 0.1)
    assert history.position == 5
    history.advance(page(7, ended=100), 1 + GAP_MIN_S)
    assert (history.position, history.gaps) == (7, ())


def test_a_gap_whose_row_arrives_with_the_end_of_its_transaction_is_applied() -> None:
    """The reading that proves the transaction ended also shows its row."""
    history = started(5)
    history.advance(page(5, 7, fence=100), 1)
    assert history.advance(page(6, 7, ended=200), 10) == [(6, "t6")]


def test_a_start_in_the_middle_watches_the_ids_missing_below() -> None:
    """Rows that were uncommitted when the feed started are found, although their ids are below its start."""
    history = GapTracker()
    history.advance(page(3, 6, newest=6, restarted=True, fence=100), 0)
    assert set(history.gaps) == {1, 2, 4, 5}
    assert history.position == 0
    assert history.advance(page(4, 6, 7), 1) == [(4, "t4"), (7, "t7")]


def test_the_number_of_gaps_is_bounded() -> None:
    """A sequence that jumps far ahead does not fill the memory."""
    history = started(5)
    history.advance(page(5, 10_000_000, fence=9), 1)
    assert len(history.gaps) <= module.MAX_GAPS


class TestReading:
    """read_page against the real table."""

    pytestmark = storage

    def test_a_first_reading_starts_at_the_newest_row(self) -> None:
        """The first page asks for a fresh start; the next ones bring what was added, and only that."""
        ids = [Invalidation.objects.create(tag=f"t{n}").pk for n in range(3)]
        history = GapTracker()
        first = read_page(history.newest, history.gaps)
        assert first.restarted
        assert history.advance(first, 0) == []
        assert history.newest == ids[-1]
        new = Invalidation.objects.create(tag="new").pk
        assert history.advance(read_page(history.newest, history.gaps), 1) == [(new, "new")]
        assert history.advance(read_page(history.newest, history.gaps), 2) == []

    def test_an_empty_table_is_a_start_too(self) -> None:
        """With no rows the position is 0, and the first row is seen."""
        history = GapTracker()
        history.advance(read_page(None, ()), 0)
        row = Invalidation.objects.create(tag="first")
        assert (row.pk, "first") in history.advance(read_page(history.newest, history.gaps), 1)

    def test_a_table_that_is_not_the_one_read_before_starts_afresh(self) -> None:
        """When the last row read is gone (restored backup, emptied table), the feed forgets everything."""
        row = Invalidation.objects.create(tag="t")
        assert not read_page(row.pk, ()).restarted
        Invalidation.objects.all().delete()
        assert read_page(row.pk, ()).restarted

    def test_a_row_that_was_written_anew_starts_afresh(self) -> None:
        """A replica that lacked the last rows gives their ids again: the row has the id, and was written later."""
        history = GapTracker()
        row = Invalidation.objects.create(tag="old")
        history.advance(read_page(None, ()), 0)
        history.advance(read_page(history.newest, history.gaps, history.written), 1)
        again = read_page(history.newest, history.gaps, history.written)
        assert not again.restarted
        assert history.written == again.written == Invalidation.objects.get(pk=row.pk).created_at
        row.delete()
        Invalidation.objects.create(id=row.pk, tag="old")
        assert read_page(history.newest, history.gaps, history.written).restarted

    def test_a_feed_far_behind_starts_afresh(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """More rows than a page holds are not read one by one."""
        monkeypatch.setattr(module, "MAX_ROWS", 5)
        first = Invalidation.objects.create(tag="t").pk
        Invalidation.objects.bulk_create(Invalidation(tag="t") for _ in range(10))
        assert read_page(first, ()).restarted

    def test_reading_without_gaps_is_one_query(self, django_assert_num_queries: Callable[[int], object]) -> None:
        """The feed's standing cost is one statement per reading."""
        row = Invalidation.objects.create(tag="t")
        with django_assert_num_queries(1):  # type: ignore[attr-defined]
            read_page(row.pk, ())


class TestOutOfOrder:
    """Real transactions that commit in another order than they took their ids."""

    pytestmark = [*storage, only_postgres]

    @pytest.fixture
    def slow(self) -> Iterator[Callable[[bool], int]]:
        """A transaction on another connection that has inserted a row; calling it commits or rolls back."""
        inserted, finish = threading.Event(), threading.Event()
        state: dict[str, object] = {}

        def work() -> None:
            try:
                with transaction.atomic():
                    state["id"] = Invalidation.objects.create(tag="slow").pk
                    inserted.set()
                    finish.wait(30)
                    if not state["commit"]:
                        transaction.set_rollback(True)
            finally:
                connection.close()

        Invalidation.objects.create(tag="before")
        thread = threading.Thread(target=work)
        thread.start()
        inserted.wait(10)

        def end(commit: bool) -> int:
            state["commit"] = commit
            finish.set()
            thread.join(10)
            return int(str(state["id"]))

        yield end
        state.setdefault("commit", False)
        finish.set()
        thread.join(10)

    def test_a_late_commit_is_seen(self, slow: Callable[[bool], int]) -> None:
        """A row that commits after a later id was read, however much later, is found and applied."""
        history = started(Invalidation.objects.get(tag="before").pk)
        later = Invalidation.objects.create(tag="later").pk
        assert history.advance(read_page(history.newest, history.gaps), 0) == [(later, "later")]
        assert history.position < later - 1
        for moment in (10.0, 100.0, 1000.0):  # as if that many seconds had passed
            history.advance(read_page(history.newest, history.gaps), moment)
            assert history.gaps == (later - 1,)
        row_id = slow(True)
        assert history.advance(read_page(history.newest, history.gaps), 2000) == [(row_id, "slow")]
        assert history.position == later

    def test_a_late_commit_from_before_the_start_is_seen(self, slow: Callable[[bool], int]) -> None:
        """A feed that starts while an earlier id is uncommitted still finds it."""
        Invalidation.objects.create(tag="later")
        history = GapTracker()
        history.advance(read_page(None, ()), 0)
        history.advance(read_page(history.newest, history.gaps), 1000)
        row_id = slow(True)
        assert (row_id, "slow") in history.advance(read_page(history.newest, history.gaps), 2000)

    def test_a_rolled_back_id_is_given_up(self, slow: Callable[[bool], int]) -> None:
        """After a rollback the position moves past the id that will never exist."""
        history = started(Invalidation.objects.get(tag="before").pk)
        later = Invalidation.objects.create(tag="later").pk
        history.advance(read_page(history.newest, history.gaps), 0)
        slow(False)
        deadline = time.monotonic() + 5
        while history.position != later:
            history.advance(read_page(history.newest, history.gaps), 1000)
            assert time.monotonic() < deadline
