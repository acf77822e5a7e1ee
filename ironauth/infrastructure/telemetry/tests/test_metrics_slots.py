"""Figures that outlive their process."""

import fcntl
import os
from pathlib import Path

import pytest
from pytest_django import Settings

from ironauth.infrastructure.telemetry import metrics_slots
from ironauth.infrastructure.telemetry.metrics import Recorder
from ironauth.infrastructure.telemetry.metrics_slots import Slots, claim, private, read_all, shared_folder
from ironauth.server import server


def _end(slots: Slots) -> None:
    """Do what the kernel does when a process ends: give its lock back."""
    assert slots._file is not None
    fcntl.flock(slots._file, fcntl.LOCK_UN)
    os.close(slots._file)


def test_workers_count_apart_and_are_read_together(tmp_path: Path) -> None:
    """Each living worker has a file of its own; a reader sees both at once, with what was counted this instant."""
    one, two = claim(tmp_path), claim(tmp_path)
    assert (one.number, two.number) == (0, 1)
    one.values[one.base("a", 1)] += 2
    two.values[two.base("b", 2) + 1] += 3
    assert [(seen.number, seen.alive, dict(seen)) for seen in read_all(one, tmp_path)] == [
        (0, True, {"a": [2]}),
        (1, True, {"b": [0, 3]}),
    ]
    _end(one)
    _end(two)


def test_what_a_dead_worker_counted_stays_and_its_successor_counts_on(tmp_path: Path) -> None:
    """Its lock ends with it, its figures do not; the next process takes the lowest free file over."""
    one, two = claim(tmp_path), claim(tmp_path)
    one.values[one.base("a", 1)] = 7
    _end(one)
    seen = read_all(two, tmp_path)
    assert [(figures.alive, dict(figures)) for figures in seen] == [(False, {"a": [7]}), (True, {})]
    successor = claim(tmp_path)
    assert successor.number == 0
    successor.values[successor.base("b", 1)] += 1
    successor.values[successor.base("a", 1)] += 1
    assert dict(read_all(two, tmp_path)[0]) == {"a": [8], "b": [1]}
    _end(successor)
    _end(two)


def test_a_successor_does_not_inherit_what_was_being_done(tmp_path: Path) -> None:
    """Gauges begin at nothing again, counters go on, and every start is counted."""
    first = claim(tmp_path)
    recorder = Recorder(first)
    recorder.set(5, "ironauth_requests_running")
    recorder.count("ironauth_cache_loads", by=4)
    _end(first)
    recorder = Recorder(second := claim(tmp_path))
    values = second.values
    assert values[recorder.base("ironauth_requests_running")] == 0
    assert values[recorder.base("ironauth_cache_loads")] == 4
    assert values[recorder.base("ironauth_worker_starts")] == 2
    _end(second)


def test_a_metric_of_another_width_is_another_metric() -> None:
    """A release with other buckets, taking over in a rolling restart, does not write into the old ones."""
    slots = private()
    assert slots.base("a", 2) + 2 == slots.base("a", 3)
    assert slots.base("a", 2) == metrics_slots.FIRST


@pytest.mark.parametrize("full", ["slots", "names"])
def test_without_room_nothing_is_overwritten(full: str) -> None:
    """The last that fits is counted; what does not fit goes where nobody looks, and is counted as such."""
    slots = private()
    if full == "slots":
        width = metrics_slots.SCRATCH - metrics_slots.FIRST
        assert slots.base("fits", width) == metrics_slots.FIRST
    else:
        assert slots.base("x" * (metrics_slots.NAMES_BYTES - 3), 1) == metrics_slots.FIRST
    (before,) = read_all(slots, None)
    at = slots.base("too much", 1)
    slots.values[at] += 1
    assert at == metrics_slots.SCRATCH
    (after,) = read_all(slots, None)
    assert (before.uncounted, after.uncounted) == (0, 1)
    assert dict(after) == dict(before)


def test_a_file_that_is_being_made_is_not_read(tmp_path: Path) -> None:
    """A worker that has just begun shows nothing, instead of failing the scrape."""
    own = claim(tmp_path)
    (tmp_path / "1").touch()
    assert [figures.number for figures in read_all(own, tmp_path)] == [0]
    _end(own)


def test_the_folder_is_private_and_goes_with_the_server() -> None:
    """Nobody else on the machine can read or write it, and nothing is left of it."""
    with shared_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        slots = claim(folder)
        assert (folder / "0").stat().st_mode & 0o777 == 0o600
        _end(slots)
    assert not folder.exists()


@pytest.mark.parametrize(("on", "workers", "shared"), [(True, 2, True), (True, 1, False), (False, 2, False)])
def test_only_workers_that_count_together_share_a_folder(
    settings: Settings, on: bool, workers: int, shared: bool
) -> None:
    """One worker has its own memory, and off there is nothing to share."""
    settings.IRONAUTH_METRICS = on
    with server._metrics_folder(workers) as folder:
        assert (folder is not None) == shared
    assert folder is None or not folder.exists()


def test_a_folder_that_cannot_be_made_is_one_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start is refused with the remedy, rather than figures that are a part of the truth."""

    def refuse(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    settings.IRONAUTH_METRICS = True
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with (
        pytest.raises(server.ServerError, match=r"\(Permission denied\): make .* or set IRONAUTH_METRICS=0$"),
        server._metrics_folder(2),
    ):
        pass
