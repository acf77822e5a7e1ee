"""What hash workers bring: sign-ins with none to three of them, each on a core, beside a server on a core."""

import itertools
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perf import plots
from perf.bench.measuring import CONNECTIONS_PER_HASH_THREAD, load_round
from perf.findings import Finding, Table
from perf.lab import Lab
from perf.load.sources import SignIn, Source
from perf.rig.processes import READY_S, STOP_S, Server, StartError, free_port, pin
from perf.rig.seed import PASSWORD, email_of
from perf.rig.site_setup import ROOT, prepare_site, serve, site_environment
from perf.summary import Round, ratios, spread

HYPOTHESIS = (
    "A sign-in is its hash, so each worker with a core of its own adds as many sign-ins as the server makes alone. "
    "Workers that share a core with the server, with each other or with the load generator add nothing: here, with two "
    "cores, the first brings at most as much as a second hash thread would, and the others bring nothing. One sign-in "
    "alone takes under a millisecond longer, and the server spends a tenth of its CPU time on it."
)
WORKERS = (0, 1, 2, 3)
PEOPLE = 200
SECONDS, QUICK_SECONDS, RAMP_S = 6.0, 2.0, 0.5
RUSH, ALONE = "rush", "one at a time"
WORKLOADS = (RUSH, ALONE)
type Rounds = dict[tuple[str, int], list[Round]]  # by workload and number of workers


def measure(lab: Lab) -> Finding:
    """Measure a rush of sign-ins, and one after another, at four servers over one database, in rounds."""
    cores = sorted(os.sched_getaffinity(0))
    port = free_port()
    environment = site_environment(lab.folder, port=port, hash_threads=1)
    environment["IRONAUTH_PASSWORD_PEPPERS"] = f"p1:{secrets.token_urlsafe(32)}"
    lab.say("preparing a database, three hash workers and four servers")
    prepare_site(environment, people=PEOPLE)
    sockets = [lab.folder / f"worker-{number}.sock" for number in range(max(WORKERS))]
    places = []
    for number, path in enumerate(sockets, start=1):
        places.append(cores[number % len(cores)])
        lab.stack.enter_context(_worker(path, environment, core=places[-1]))
    servers: dict[int, Server] = {}
    for count in WORKERS:
        named = {"IRONAUTH_HASH_WORKERS": ",".join(f"unix:{path}" for path in sockets[:count])}
        own = {**environment, **(named if count else {})}
        servers[count] = serve(lab.folder / f"{count}.log", free_port() if servers else port, own, lab.stack)
        pin(servers[count].pid, {cores[0]})
    os.sched_setaffinity(0, {cores[-1]})
    emails = itertools.cycle([email_of(serial) for serial in range(PEOPLE)])
    rounds: Rounds = {}
    for number in range(1, lab.rounds + 1):
        for workload, count in itertools.product(WORKLOADS, WORKERS):
            made = load_round(
                servers[count],
                _sources(servers[count], emails, _connections(workload, count)),
                seconds=QUICK_SECONDS if lab.quick else SECONDS,
                ramp_s=RAMP_S,
            )
            rounds.setdefault((workload, count), []).append(made)
        said = ", ".join(f"{rounds[RUSH, count][-1].rate:.1f}" for count in WORKERS)
        lab.say(f"round {number}: {said} sign-ins/s with {', '.join(map(str, WORKERS))} workers")
    path = lab.plot()
    bars = {_named(count): spread([one.rate for one in rounds[RUSH, count]]).median for count in WORKERS}
    plots.bars(path, "Sign-ins by hash workers", bars, unit="sign-ins/s")
    return finding(rounds, places, cores, [path.name])


def finding(rounds: Rounds, places: list[int], cores: list[int], drawn: list[str]) -> Finding:
    """Say what was found, each number of workers beside none."""
    rows = []
    for (workload, count), each in rounds.items():
        rate = spread([one.rate for one in each])
        gain = ratios([one.rate for one in each], [one.rate for one in rounds[workload, 0]])
        rows.append(
            [
                f"{workload}, {_named(count)}",
                f"{rate.median:.1f} ({rate.low:.1f}-{rate.high:.1f})",
                "" if gain is None else f"{gain.median:.2f}",
                f"{spread([one.p50_ms for one in each]).median:.1f}",
                f"{spread([one.p99_ms for one in each]).median:.1f}",
                f"{spread([one.server_cpu_us for one in each]).median / 1000:.1f}",
            ]
        )
    columns = ["workload", "sign-ins/s (low-high)", "of none", "p50 ms", "p99 ms", "server CPU ms/sign-in"]
    notes = (
        (
            f"The server, with one hash thread, is pinned to core {cores[0]}, the load generator to core {cores[-1]}, "
            f"the workers, of one thread each, to cores {', '.join(map(str, places))}, reached by Unix sockets: of "
            f"{len(cores)} cores, those that are named twice are shared."
        ),
        f"A rush has {CONNECTIONS_PER_HASH_THREAD} connections for each hash thread anywhere. Argon2id t=3, m=64 MiB.",
    )
    failed = sum(one.failed + one.shed for each in rounds.values() for one in each)
    data = {f"{workload}, {_named(count)}": each for (workload, count), each in rounds.items()}
    return Finding([Table("Hash workers", columns, rows)], (), drawn, notes, data=data, failed=failed)


def _connections(workload: str, count: int) -> int:
    return CONNECTIONS_PER_HASH_THREAD * (1 + count) if workload == RUSH else 1


def _named(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _sources(server: Server, emails: Iterator[str], connections: int) -> list[Source]:
    return [SignIn(server.host, emails, PASSWORD) for _ in range(connections)]


@contextmanager
def _worker(path: Path, environment: dict[str, str], *, core: int) -> Iterator[None]:
    """Run a hash worker with one thread on ``core``; raises ``StartError`` when it does not get ready."""
    log = path.with_suffix(".log")
    own = {name: value for name, value in environment.items() if not name.startswith("IRONAUTH_")}
    del own["DJANGO_SETTINGS_MODULE"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "hashworker", "--uds", str(path), "--threads", "1"],
            cwd=ROOT, env=own, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_S
        while "is ready" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise StartError(f"manage.py hashworker did not get ready:\n{log.read_text()}")
            time.sleep(0.05)
        pin(process.pid, {core})
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
