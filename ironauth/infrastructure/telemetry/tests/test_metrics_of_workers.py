"""Figures that outlive their process."""

import os
from pathlib import Path

import pytest
from pytest_django import Settings

from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.metrics import Recorder
from ironauth.infrastructure.telemetry.metrics_export import text_of
from ironauth.infrastructure.telemetry.metrics_files import FiguresFile, claim, read_all, shared_folder
from ironauth.server import server


def _end(file: FiguresFile) -> None:
    """Do what the kernel does when a process ends: give its lock back."""
    os.close(file.lock)


def test_workers_count_apart_and_are_read_together(tmp_path: Path) -> None:
    """Each living worker has a file of its own; a reader sees both at once."""
    one, two = claim(tmp_path), claim(tmp_path)
    one.write({("a",): [2]})
    two.write({("b", "x"): [0, 3]})
    assert [(seen.number, seen.alive, seen.series) for seen in read_all(tmp_path)] == [
        (0, True, {("a",): [2]}),
        (1, True, {("b", "x"): [0, 3]}),
    ]
    _end(one)
    _end(two)


def test_what_a_dead_worker_counted_stays_and_its_successor_counts_on(tmp_path: Path) -> None:
    """Its lock ends with it, its figures do not; the next process takes the lowest free file over."""
    one, two = claim(tmp_path), claim(tmp_path)
    one.write({("a",): [7]})
    _end(one)
    assert [(seen.alive, seen.series) for seen in read_all(tmp_path)] == [(False, {("a",): [7]}), (True, {})]
    successor = claim(tmp_path)
    assert successor.path.name == "0"
    assert successor.read() == {("a",): [7]}
    _end(successor)
    _end(two)


def test_a_successor_does_not_inherit_what_was_being_done(tmp_path: Path) -> None:
    """Gauges begin at nothing again, counters go on, and every start is counted."""
    first = Recorder(claim(tmp_path))
    first.set(5, "ironauth_requests_running")
    first.count("ironauth_cache_loads", by=4)
    first.flush()
    assert first.file
    _end(first.file)
    second = Recorder(claim(tmp_path))
    assert ("ironauth_requests_running",) not in second.series
    assert second.counts("ironauth_cache_loads") == [4]
    assert second.counts("ironauth_worker_starts") == [2]
    assert second.file
    _end(second.file)


def test_a_metric_of_another_release_is_left_out(tmp_path: Path) -> None:
    """One with other buckets, or a name that is no more, does not keep a release from counting on."""
    file = claim(tmp_path)
    file.write({("ironauth_cache_loads",): [1, 2], ("ironauth_gone",): [1]})
    recorder = Recorder(file)
    assert recorder.counts("ironauth_cache_loads") == [0]
    assert ("ironauth_gone",) not in recorder.series
    _end(file)


def test_without_room_nothing_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last that fits is counted; what does not fit goes where nobody looks, and is counted as such."""
    recorder = Recorder()
    monkeypatch.setattr(metrics, "MAX_SERIES", len(recorder.series) + 1)
    recorder.count("ironauth_tokens_issued", "fits")
    recorder.count("ironauth_tokens_issued", "too much")
    text = text_of(recorder, None, accepted="")[0].decode()
    assert 'ironauth_tokens_issued_total{type="fits"} 1' in text
    assert "too much" not in text
    assert "ironauth_uncounted_total 1" in text


def test_a_disk_that_is_full_ends_nothing(tmp_path: Path) -> None:
    """What was written last stays."""
    file = claim(tmp_path)
    file.write({("a",): [1]})
    file.path.with_suffix(".new").mkdir()
    file.write({("a",): [2]})
    assert file.read() == {("a",): [1]}
    _end(file)


def test_the_folder_is_private_and_goes_with_the_server() -> None:
    """Nobody else on the machine can read or write it, and nothing is left of it."""
    with shared_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        _end(claim(folder))
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
