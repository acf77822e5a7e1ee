"""Real servers: off there is nothing, on one scrape sees all workers, also those that were."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from prometheus_client.parser import text_string_to_metric_families

from conftest import ServeProcess, process_environment

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "t" * 43
PINGS = ("ironauth_requests_total", (("lane", "api"), ("method", "GET"), ("route", "/ping"), ("status", "200")))
STARTS = ("ironauth_worker_starts_total", ())
SETTLED_S = 0.3  # what a worker has answered, every other one shows a tenth of a second later, if the machine lets it
WORKERS = ("ironauth_workers", ())
#: What a process has imported for metrics and traces, and whether the address of the former exists.
OFF = """
import ironauth.asgi, sys
from django.urls import resolve, Resolver404
wanted = (
    "prometheus", "opentelemetry.exporter", "ironauth.infrastructure.telemetry.metrics_export",
    "ironauth.server.instrumentation.metrics_", "ironauth.server.instrumentation.traces",
)
print([name for name in sys.modules if name.startswith(wanted)])
try: resolve("/metrics")
except Resolver404: print("unknown")
"""
type Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def _scrape(base: str) -> Samples:
    answer = httpx.get(f"{base}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def _workers(log: str) -> list[int]:
    """Return the process ids of the server's workers, whose parent wrote ``log``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if log in str((entry / "fd" / "1").readlink()) and b"spawn_main" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def test_no_counter_goes_backwards_when_a_worker_is_killed(serve_process: ServeProcess, tmp_path: Path) -> None:
    """Two workers are summed, exactly; what a killed one counted stays, and its successor counts on."""
    base = serve_process("--workers", "2", IRONAUTH_METRICS="1", IRONAUTH_METRICS_TOKEN=TOKEN)
    deadline = time.monotonic() + 90  # a worker starts in a second, where nothing else runs
    while _scrape(base)[WORKERS] < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    begun = _settled(base, 1)  # what asked whether it had started
    for _ in range(20):  # each on a connection of its own: the kernel spreads them over the workers
        assert httpx.get(f"{base}/ping").status_code == 200
    before = _settled(base, begun[PINGS] + 20)
    assert before[PINGS] - begun[PINGS] == 20
    log = tmp_path / f"serve-{base.rpartition(':')[2]}.log"
    while "/metrics (Authorization: Bearer" not in log.read_text():  # said up to 0.5 s after the first answer
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(_workers(str(log))[0], signal.SIGKILL)
    after = before
    while after[STARTS] < 3 and time.monotonic() < deadline:
        try:
            seen = _scrape(base)
        except httpx.TransportError:  # the connection was the dead worker's
            continue
        backwards = [name for name, value in after.items() if _counts(name[0]) and seen.get(name, 0.0) < value]
        assert not backwards
        after = seen
        time.sleep(0.05)
    assert after[STARTS] == 3
    assert after[PINGS] == before[PINGS]
    httpx.get(f"{base}/ping")
    assert _settled(base, before[PINGS] + 1)[PINGS] == before[PINGS] + 1


def _settled(base: str, pings: float) -> Samples:
    """Scrape when there has been time for all that was answered to be shown, and again until ``pings`` are (5 s)."""
    deadline = time.monotonic() + 5
    while True:
        time.sleep(SETTLED_S)
        found = _scrape(base)
        if found.get(PINGS, 0) >= pings or time.monotonic() > deadline:
            return found


def _counts(name: str) -> bool:
    return name.endswith(("_total", "_bucket", "_count", "_sum"))


@pytest.mark.only_sqlite
def test_off_nothing_of_it_is_imported() -> None:
    """Anybody who wants neither metrics nor traces pays neither memory nor time for them, and has no such address."""
    said = subprocess.run(
        [sys.executable, "-c", OFF],
        cwd=settings.BASE_DIR,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.split() == ["[]", "unknown"]


async def test_off_the_address_is_as_unknown_as_any(api: httpx.AsyncClient) -> None:
    """404, with a token too."""
    answer = await api.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
