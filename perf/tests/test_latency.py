"""What the latency experiment says about what it measured."""

import math

import pytest

from perf.experiments.latency import LIMIT_MS, WARM_UP, Measured, finding
from perf.load.closed_loop import LoadResult
from perf.load.endpoints import ENDPOINTS


def measured(ms: float, *, failures: dict[str, int] | None = None) -> Measured:
    """Build an endpoint that always took as long."""
    return Measured([int(ms * 1_000_000)] * 10, cpu_s=0.02, requests=20, failures=failures or {})


def test_the_first_answers_of_a_round_do_not_count() -> None:
    """What warms up is left out of the latencies, and in the CPU time of all requests."""
    each = Measured()
    for _ in range(2):
        each.add(LoadResult(60.0, latencies_ns=[9_000_000] * WARM_UP + [1_000_000] * 5), cpu_s=0.003)
    assert each.latencies == [1_000_000] * 10
    assert each.ms(50) == 1.0
    assert each.cpu_ms == pytest.approx(6 / (2 * WARM_UP + 10))


def test_refusals_are_failures() -> None:
    """Failures of all rounds are added up by reason, 503 too."""
    each = Measured()
    for _ in range(2):
        result = LoadResult(60.0, shed=1)
        result.failures["unexpected answer, status 404"] = 2
        each.add(result, cpu_s=0.0)
    assert each.failures == {"unexpected answer, status 404": 4, "503": 2}


@pytest.mark.parametrize(("ms", "met"), [(LIMIT_MS, True), (LIMIT_MS + 0.01, False)])
def test_the_slowest_endpoint_is_judged(ms: float, met: bool) -> None:
    """One endpoint over the limit falls short on its storage, and is named; the admin's page is not judged."""
    slow = [measured(99.0 if not each.promised else 0.5) for each in ENDPOINTS]
    slow[0] = measured(ms)
    found = finding({"SQLite": [measured(0.5) for _ in ENDPOINTS], "Postgres": slow}, [])
    assert [check.met for check in found.checks] == [True, met]
    assert ENDPOINTS[0].title in found.checks[1].what
    over = [note for note in found.notes if note.startswith("Over 3 ms")]
    assert over == ([] if met else [f"Over 3 ms: {ENDPOINTS[0].title} on Postgres: {ms:.2f} ms"])
    assert len(found.tables[0].rows) == len(ENDPOINTS)


def test_silence_meets_no_promise() -> None:
    """An endpoint without a single answer falls short, and its failures are told."""
    silent = [measured(0.5) for _ in ENDPOINTS]
    silent[3] = Measured(failures={"connect: refused": 7})
    found = finding({"SQLite": silent}, [])
    assert not found.checks[0].met
    assert math.isinf(found.checks[0].measured)
    assert found.failed == 7
    assert f"{ENDPOINTS[3].title} on SQLite: connect: refused: 7" in found.notes
