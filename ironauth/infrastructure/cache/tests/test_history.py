"""The feed misses no row, although ids become visible out of order on PostgreSQL."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction

from ironauth.infrastructure.cache import gap_tracker as module
from ironauth.infrastructure.cache.gap_tracker import GAP_MIN_S, MAX_GAPS, GapTracker, Page, absent, read_page
from ironauth.infrastructure.models import Invalidation

storage = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
only_postgres = pytest.mark.only_postgres


def page(*ids: int, newest: int = 0, restarted: bool = False, ended: int = 0, fence: int = 0, after: int = 0) -> Page:
    """Return a page with rows of these ids; those absent above ``after`` are missing if there is a ``fence``."""
    last = max((*ids, newest))
    missing = absent(after + 1, last, [i for i in ids if i > after]) if fence else ()
    return Page(tuple((i, f"t{i}") for i in ids), last, restarted, ended, fence, missing=missing)


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
    assert history.advance(page(5, 8, fence=100, after=5), 1) == [(8, "t8")]
    assert (history.position, history.gaps) == (5, ((6, 7),))
    assert history.advance(page(6, 8, ended=50), 2) == [(6, "t6")]
    assert history.position == 6
    assert history.advance(page(7, 8, 9, ended=50), 60) == [(7, "t7"), (9, "t9")]
    assert history.position == 9


def test_a_gap_ends_when_every_transaction_of_its_time_has_ended() -> None:
    """However long it takes: a gap is given up only past its fence, and not in the first moments."""
    history = started(5)
    history.advance(page(5, 7, fence=100, after=5), 1)
    history.advance(page(7, ended=99), 1_000_000)
    assert history.position == 5
    history.advance(page(7, ended=100), 1 + GAP_MIN_S - 0.1)
    assert history.position == 5
    history.advance(page(7, ended=100), 1 + GAP_MIN_S)
    assert (history.position, history.gaps) == (7, ())


def test_a_gap_whose_row_arrives_with_the_end_of_its_transaction_is_applied() -> None:
    """The reading that proves the transaction ended also shows its row."""
    history = started(5)
    history.advance(page(5, 7, fence=100, after=5), 1)
    assert history.advance(page(6, 7, ended=200), 10) == [(6, "t6")]


def test_a_start_in_the_middle_watches_the_ids_missing_below() -> None:
    """Rows that were uncommitted when the feed started are found, although their ids are below its start."""
    history = GapTracker()
    history.advance(page(3, 6, newest=6, restarted=True, fence=100), 0)
    assert history.gaps == ((1, 2), (4, 5))
    assert history.position == 0
    assert history.advance(page(4, 6, 7), 1) == [(4, "t4"), (7, "t7")]


@pytest.mark.parametrize(
    ("ids", "ranges"),
    [
        ([], ((3, 7),)),
        ([3], ((4, 7),)),
        ([7], ((3, 6),)),
        ([5], ((3, 4), (6, 7))),
        ([4, 5, 6], ((3, 3), (7, 7))),
        ([3, 4, 5, 6, 7], ()),
    ],
)
def test_what_is_absent_is_told_in_ranges(ids: list[int], ranges: tuple[tuple[int, int], ...]) -> None:
    """At both ends, in the middle, all and none."""
    assert absent(3, 7, ids) == ranges


def test_the_ids_of_one_transaction_are_one_gap() -> None:
    """However many: the position stays below the first, each of them is asked for, and all of them are applied."""
    history = started(1)
    history.advance(page(1, 5_002, fence=9, after=1), 1)
    assert (history.gaps, history.position) == (((2, 5_001),), 1)
    arrived = range(2, 5_002)
    assert history.advance(page(*arrived, 5_002, ended=9), 2) == [(row_id, f"t{row_id}") for row_id in arrived]
    assert (history.gaps, history.position) == ((), 5_002)


def test_a_gap_of_two_transactions_is_parted_by_the_first_that_commits() -> None:
    """What is left of it keeps the time at which it was seen, and its fence."""
    history = started(5)
    history.advance(page(5, 10, fence=100, after=5), 1)
    assert history.advance(page(7, 8, 10, ended=99), 60) == [(7, "t7"), (8, "t8")]
    assert (history.gaps, history.position) == (((6, 6), (9, 9)), 5)
    assert history.advance(page(9, 10, ended=100), 61) == [(9, "t9")]
    assert (history.gaps, history.position) == ((), 10)


def every_second(gaps: int) -> tuple[GapTracker, int]:
    """Return a history that has just seen so many gaps above row 1, with the fence 100, at 1 s; and its newest row."""
    history = started(1)
    newest = 1 + 2 * gaps
    assert history.advance(page(*range(1, newest + 1, 2), fence=100, after=1), 1)
    return history, newest


def test_as_many_gaps_as_are_followed_are_read_one_by_one() -> None:
    """With the most there may be, nothing is forgotten, and each is asked for."""
    history, newest = every_second(MAX_GAPS)
    assert history.gaps == tuple((row_id, row_id) for row_id in range(2, newest, 2))
    assert history.advance(page(newest, ended=99), 60) == []
    assert history.position == 1
    assert history.advance(page(newest - 1, newest, ended=100), 60) == [(newest - 1, f"t{newest - 1}")]
    assert (history.gaps, history.position) == ((), newest)


def test_with_one_gap_more_every_reading_forgets_until_its_transactions_have_ended() -> None:
    """Its ids are not all read, so that at each reading they may have been missed; the position stays below them."""
    history, newest = every_second(MAX_GAPS + 1)
    assert len(history.gaps) == MAX_GAPS + 1
    followed = range(2, newest - 1, 2)
    assert history.advance(page(*followed, newest, ended=99), 60) is None
    assert (history.gaps, history.position) == (((newest - 1, newest - 1),), newest - 2)
    assert history.advance(page(newest, ended=99), 1_000_000) is None
    assert history.advance(page(newest, ended=100), 1 + GAP_MIN_S - 0.1) is None
    assert history.position == newest - 2
    assert history.advance(page(newest, ended=100), 1 + GAP_MIN_S) is None  # the last of them may have just committed
    assert (history.gaps, history.position) == ((), newest)
    assert history.advance(page(newest, newest + 1), 70) == [(newest + 1, f"t{newest + 1}")]


def test_the_number_of_gaps_is_bounded() -> None:
    """However many more there are and however they are parted, memory and the query have a bound."""
    history, _ = every_second(3 * MAX_GAPS)
    assert (len(history.gaps), history.position) == (MAX_GAPS + 1, 1)
    parted = started(1)
    parted.advance(page(1, 10 * MAX_GAPS, fence=9, after=1), 1)
    parted.advance(page(*range(3, 8 * MAX_GAPS, 2), 10 * MAX_GAPS), 2)
    assert (len(parted.gaps), parted.position) == (MAX_GAPS + 1, 1)
    assert parted.advance(page(10 * MAX_GAPS, ended=8), 60) is None
    assert parted.advance(page(10 * MAX_GAPS, ended=9), 60) is None
    assert parted.advance(page(10 * MAX_GAPS, ended=9), 61) == []


def test_a_start_that_did_not_look_at_the_oldest_forgets_until_they_have_ended() -> None:
    """Below what it looked through an id may still appear: the position says nothing, until none can."""
    history = GapTracker()
    first = Page((), 50_000, True, 0, 100, missing=((45_000, 45_001),), unread=40_000)
    assert history.advance(first, 0) is None
    assert history.position == 0
    assert history.advance(page(45_000, 45_001, 50_000, ended=99), 60) is None
    assert history.position == 0
    assert history.advance(page(50_000, ended=100), 61) is None
    assert history.position == 50_000
    assert history.advance(page(50_000, 50_001), 62) == [(50_001, "t50001")]


class TestReading:
    """read_page against the real table."""

    pytestmark = storage

    def test_a_first_reading_starts_at_the_newest_row(self) -> None:
        """The first page asks for a fresh start; the next ones bring what was added, and only that."""
        ids = [Invalidation.objects.create(tag=f"t{n}").pk for n in range(3)]
        history = GapTracker()
        first = read_page(history.newest, history.gaps)
        assert first.restarted
        assert history.advance(first, 0) is None
        assert history.newest == ids[-1]
        new = Invalidation.objects.create(tag="new").pk
        assert history.advance(read_page(history.newest, history.gaps), 1) == [(new, "new")]
        assert history.advance(read_page(history.newest, history.gaps), 2) == []

    def test_an_empty_table_is_a_start_too(self) -> None:
        """With no rows the position is 0, and the first row is seen."""
        history = GapTracker()
        history.advance(read_page(None, ()), 0)
        row = Invalidation.objects.create(tag="first")
        assert (row.pk, "first") in (history.advance(read_page(history.newest, history.gaps), 1) or [])

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

    @only_postgres
    @pytest.mark.parametrize(("rows", "looked_through"), [(4, True), (5, False)])
    def test_a_start_looks_through_a_bounded_number_of_rows(
        self, monkeypatch: pytest.MonkeyPatch, rows: int, looked_through: bool
    ) -> None:
        """In a table with as many or more it tells up to where it did not look."""
        monkeypatch.setattr(module, "MAX_ROWS", 5)
        for n in range(rows):
            Invalidation.objects.create(id=100 + 2 * n, tag="t")
        found = read_page(None, ())
        between = [(101 + 2 * n, 101 + 2 * n) for n in range(rows - 1)]
        assert list(found.missing) == ([(1, 99), *between] if looked_through else between)
        assert found.unread == (0 if looked_through else 99)
        assert found.fence

    @only_postgres
    def test_as_many_gaps_as_there_may_be_are_one_query(self) -> None:
        """The statement with the most ranges is understood, and finds a row in each."""
        gaps = [(10 * n + 1, 10 * n + 9) for n in range(MAX_GAPS + 1)]
        newest = 10 * MAX_GAPS + 100
        Invalidation.objects.bulk_create(
            Invalidation(id=row_id, tag="t")
            for row_id in (*(last for _, last in gaps), *(last + 1 for _, last in gaps[:5]), newest)
        )
        found = read_page(newest, gaps)
        assert [row_id for row_id, _ in found.rows] == [*(last for _, last in gaps), newest]
        assert not found.restarted

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
            assert history.gaps == ((later - 1, later - 1),)
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
        assert (row_id, "slow") in (history.advance(read_page(history.newest, history.gaps), 2000) or [])

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
