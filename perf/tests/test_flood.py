"""The flood experiment's clients, meters and verdicts, without the flood."""

import contextlib
import os
import time
from pathlib import Path

import pytest

from ironauth.tests.docs.test_sizing import constants
from perf.experiments.flood import report
from perf.experiments.flood.clients import Job, Outcome, sources, start, together
from perf.experiments.flood.neighbours import busy_neighbours
from perf.experiments.flood.report import Seen
from perf.experiments.flood.rounds import Flooded, forget_peak, peak_mib
from perf.experiments.flood.stalls import undisturbed, watching
from perf.findings import Finding
from perf.lab import Lab
from perf.rig.hash_rate import HashRate
from perf.rig.processes import free_port

MS = 1_000_000


def flooded(*, me_ms: int = 2, refused_ms: int = 3, accepted_ms: int = 3_000) -> Flooded:
    """Make a round."""
    me = Outcome(
        [me_ms * MS] * 100,
        {},
        dues=[serial * 5 * MS for serial in range(100)],
        lags=[1],
        scheduling="real-time priority",
    )
    return Flooded(me, Outcome([accepted_ms * MS] * 160, {}, shed=[refused_ms * MS] * 300), 239.0, 50.0, 0.01)


def seen(round_: Flooded) -> Seen:
    """Make what an experiment of one round saw: 16 sign-ins a second of 17."""
    made = Seen(threads=2, flood_s=10.0, offered=68.0)
    made.raw.append(HashRate(2, 17.0, 115.0, 160.0, 110.0))
    made.idle.append(Outcome([MS] * 100, {}, lags=[1]))
    made.flooded.append(round_)
    made.beside.append(flooded())
    made.beside_at_0.append(flooded())
    return made


def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, round_: Flooded) -> Finding:
    """Report on one round, plots going to ``tmp_path``."""
    monkeypatch.setattr(Lab, "plot", lambda _self, suffix="": tmp_path / f"{suffix}.svg")
    return report.finding(Lab("flood", tmp_path, contextlib.ExitStack(), True, print), seen(round_))


def test_a_good_round_keeps_every_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures within their bounds pass, nothing failed, and the plots are drawn."""
    finding = found(tmp_path, monkeypatch, flooded())
    assert [check.met for check in finding.checks] == [True] * 10
    assert finding.failed == 0
    assert all((tmp_path / name).stat().st_size for name in finding.plots)
    assert [len(table.rows[0]) for table in finding.tables] == [len(table.columns) for table in finding.tables]


@pytest.mark.parametrize(
    ("bad", "promises"),
    [
        (flooded(refused_ms=4_001), ["p99 of the answers 503", "answers 503 later than 50 ms"]),
        (flooded(accepted_ms=4_500), ["longest accepted"]),
    ],
)
def test_a_broken_promise_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: Flooded, promises: list[str]
) -> None:
    """Each figure beyond its bound fails its own checks and no other."""
    broken = [check.what for check in found(tmp_path, monkeypatch, bad).checks if not check.met]
    assert [what.startswith(promise) for what, promise in zip(broken, promises, strict=True)] == [True] * len(promises)


def test_what_neighbours_take_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside busy processes `/me`, the refusals and the share of sign-ins have bounds of their own."""
    monkeypatch.setattr(Lab, "plot", lambda _self, suffix="": tmp_path / f"{suffix}.svg")
    made = seen(flooded())
    made.beside[0] = flooded(me_ms=6, refused_ms=51)
    made.beside[0].sign_ins.latencies = [3_000 * MS] * 143
    lab = Lab("flood", tmp_path, contextlib.ExitStack(), True, print)
    broken = [check.what for check in report.finding(lab, made).checks if not check.met]
    assert [what.partition(" beside")[0] for what in broken] == ["p99 of /me", "p99 of the answers 503", "sign-ins"]
    made.beside[0].sign_ins.latencies = [3_000 * MS] * 144
    assert len([check for check in report.finding(lab, made).checks if not check.met]) == 2


def test_neighbours_leave_with_the_scene() -> None:
    """One busy process a core, in sessions of their own; none is left."""
    with busy_neighbours() as started:
        assert len(started) == len(os.sched_getaffinity(0))
        assert os.getsid(0) not in {os.getsid(one.pid) for one in started}
        assert {one.poll() for one in started} == {None}
    assert None not in {one.poll() for one in started}


def test_stalls_of_the_machine_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow p99 breaks the promise; without the requests that overlap a stall only where a stall explains it."""
    round_ = flooded()
    for serial in (10, 11):
        round_.me.latencies[serial] = 40 * MS
    assert [check.met for check in found(tmp_path, monkeypatch, round_).checks][:2] == [False, False]
    round_.stalls = [(50 * MS, 89 * MS)]
    finding = found(tmp_path, monkeypatch, round_)
    assert [check.met for check in finding.checks][:2] == [False, True]
    assert "stood still 1 times" in " ".join(finding.notes)


def test_only_requests_that_overlap_a_stall_are_left_out() -> None:
    """One that ends when the stall begins, or begins when it ends, is judged."""
    begun, lasted = [0, 5, 8, 20, 31], [10, 10, 40, 5, 1]
    assert undisturbed(begun, lasted, [(10, 20), (25, 31)]) == [10, 5, 1]


def test_a_core_is_watched_for_a_bounded_time() -> None:
    """The watchers come to an end, and what they saw lies within that time, in order."""
    before = time.perf_counter_ns()
    with watching(0.2) as stalls:
        assert stalls == []
    assert stalls == sorted(stalls)
    assert all(before < begin < end <= time.perf_counter_ns() for begin, end in stalls)


def test_late_refusals_and_noise_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the figures learns of refusals after the wait, and of other load on the machine."""
    round_ = flooded(refused_ms=4_001)
    round_.others = 0.8
    notes = " ".join(found(tmp_path, monkeypatch, round_).notes)
    assert "Refused later than 50 ms: 300" in notes
    assert "NOT QUIET" in notes


@pytest.mark.parametrize("outcome", [Outcome([], {}), Outcome([MS], {"connection lost before the answer": 2})])
def test_missing_and_lost_answers_are_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    """A client without answers failed, as did every answer that was lost."""
    round_ = flooded()
    round_.sign_ins = outcome
    assert found(tmp_path, monkeypatch, round_).failed == (
        outcome.failures.get("connection lost before the answer") or 1
    )


def test_each_connection_has_its_token_and_each_sign_in_its_person() -> None:
    """Tokens are dealt out to the connections; people come one after the other, from the first that was asked for."""
    me = sources(Job("me", 1, 3, 0, 1, 0, rate=1, tokens=["a", "b"]))
    assert [b"Bearer a" in (source.next_request() or b"") for source in me] == [True, False, True]
    first, second = sources(Job("sign-in", 1, 2, 0, 1, 0, rate=1, first_person=7))
    requests = [source.next_request() or b"" for source in (first, second, first)]
    assert [f"person{number}@".encode() in request for number, request in enumerate(requests, 7)] == [True] * 3


def test_a_client_tells_what_it_saw_and_leaves() -> None:
    """Without a server there is an outcome all the same, with its failure, from a process of its own."""
    job = Job("me", free_port(), 1, 0.0, 0.2, time.monotonic(), rate=10, tokens=["a"])
    assert [sum(outcome.failures.values()) for outcome in together([job])] == [1]


def test_ctrl_c_does_not_reach_the_clients() -> None:
    """They are in a group of their own, so only the experiment is interrupted, and ends them without a traceback."""
    client = start(Job("me", free_port(), 1, 0.0, 0.2, time.monotonic(), rate=10, tokens=["a"]))
    try:
        assert os.getpgid(client.pid) == client.pid != os.getpgrp()
    finally:
        client.kill()
        client.communicate()


def test_a_client_that_breaks_is_an_error() -> None:
    """An impossible job ends its client, and the experiment with it."""
    with pytest.raises(RuntimeError, match="ended with 1"):
        together([Job("me", free_port(), 1, 0.0, 10_000.0, 0.0, rate=10, tokens=["a"])])


def test_the_highest_memory_begins_anew() -> None:
    """Memory given back no longer counts after the record was reset; what is in use does."""
    held = bytearray(os.urandom(1)) * (64 * 2**20)
    most = peak_mib(os.getpid())
    del held
    forget_peak(os.getpid())
    assert 1 < peak_mib(os.getpid()) < most - 32


def test_the_bound_of_memory_is_what_sizing_counts() -> None:
    """Pages, chart and experiment have one number."""
    assert constants()["worker"] == report.WORKER_MIB
    assert constants()["hashing"] == report.THREAD_MIB
