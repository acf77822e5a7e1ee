"""Flame graphs of a server under load: where the time of one workload goes.

``python -m perf.profile me --seconds 10`` starts the servers of the benchmark, warms the workload up, records with
py-spy while it runs, and leaves ``<date>-<workload>.svg`` and a table of the modules and functions that were on top in
``perf/results/raw/profiles/``; with ``--publish`` in ``perf/results/profiles/``, which is committed. Exit status: 0
recorded; 1 an answer was wrong; 2 a server or py-spy did not start; 130 interrupted.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf.bench.servers import start_servers
from perf.findings import now
from perf.load.closed_loop import run_load
from perf.load.sources import Source
from perf.load.workloads import HASH, WORKLOADS, Workload
from perf.rig.arguments import Parser, whole_number
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.machine import QUIET_CORES, describe
from perf.rig.processes import Server, StartError, pin, read_meter
from perf.rig.site_setup import ROOT
from perf.runner import RESULTS

CONNECTIONS = 16
RATE_HZ = 500  # samples a second: 5,000 in ten seconds, while the server loses about 3 % of its rate
MAX_SECONDS = 60
SAVING_S = 60  # longest that py-spy may take to write its recording
SHOWN = 25  # lines of the table
LINE_NUMBER = re.compile(r":\d+\)$")
TITLE = re.compile(r'(<text id="title"[^>]*>)[^<]*(</text>)')


@dataclass
class Recording:
    """What was recorded: two files, and how the load went meanwhile. ``others``: cores that other processes used."""

    picture: Path
    stacks: Path
    rate: float = 0.0
    others: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)


def main() -> int:
    """Record, draw, print."""
    leave_by_interrupt()
    names = [workload.name for workload in WORKLOADS if workload.name != HASH]
    parser = Parser(prog="python -m perf.profile", description=__doc__.split("\n", 1)[0])
    parser.add_argument("workload", choices=names)
    seconds = f"length of each of the two recordings, 1 to {MAX_SECONDS} (default: 10)"
    parser.add_argument("--seconds", type=whole_number(1, MAX_SECONDS, 10), default=10, help=seconds)
    parser.add_argument("--publish", action="store_true", help="into perf/results/profiles/, in place of raw/profiles/")
    given = parser.parse_args()
    return status_of(lambda: _record(given.workload, given.seconds, folder_of(publish=given.publish)))


def folder_of(*, publish: bool) -> Path:
    """Return where a recording goes: what is committed is only replaced when that is asked for."""
    return RESULTS / "profiles" if publish else RESULTS / "raw" / "profiles"


def _record(name: str, seconds: int, target: Path) -> int:
    workload = next(each for each in WORKLOADS if each.name == name)
    machine, started_at = describe(ROOT), now()
    with tempfile.TemporaryDirectory(prefix="ironauth-profile-") as folder:
        seen = _measure(workload, seconds, Path(folder))
        table = _table(seen.stacks.read_text(encoding="utf-8"))
        _name(seen.picture, workload.title)
        target.mkdir(parents=True, exist_ok=True)
        stem = target / f"{started_at[:10]}-{name}"
        shutil.copyfile(seen.picture, stem.with_suffix(".svg"))
    facts = [f"{seen.rate:,.0f} requests/s while recorded, failed: {dict(seen.failures) or 'none'}.", *_noise(seen)]
    facts.append(f"{started_at}, commit {machine.commit}; {machine.cpu}, {machine.cores} cores.")
    page = "\n\n".join([f"# {workload.title}", *facts, table])
    stem.with_suffix(".md").write_text(page, encoding="utf-8")
    sys.stdout.write("\n".join([table, *facts, f"written: {stem.relative_to(ROOT)}.svg and .md", ""]))
    return 1 if seen.failures else 0


def _noise(seen: Recording) -> list[str]:
    """Say so where the machine was not quiet."""
    if seen.others <= QUIET_CORES:
        return []
    return [
        (
            f"NOT QUIET: other processes kept up to {seen.others:.2f} cores busy while recording: "
            "repeat on a quiet machine before believing the rate; shares of the time change less"
        )
    ]


def _measure(workload: Workload, seconds: int, folder: Path) -> Recording:
    """Record twice, because one recording is one format: first the picture, then the counts."""
    every = os.sched_getaffinity(0)
    seen = Recording(folder / "picture.svg", folder / "raw")
    with ExitStack() as stack:
        say("preparing a database and the servers")
        servers = start_servers(folder, hash_threads=default_hash_threads(), stack=stack)
        server = servers.named(workload.server)
        sources = workload.sources(servers.site, servers.bare, CONNECTIONS)
        if not workload.hashing:
            pin(server.pid, {min(every)})
            os.sched_setaffinity(0, {max(every)})
            stack.callback(os.sched_setaffinity, 0, every)
        run_load(server.address, sources, seconds=1)
        for output, kind in ((seen.picture, "flamegraph"), (seen.stacks, "raw")):
            say(f"recording {workload.name} for {seconds} s ({kind})")
            _load(server, sources, seconds, _spy(server.pid, seconds, output, kind), seen)
    return seen


def _load(
    server: Server, sources: Sequence[Source], seconds: int, recorder: subprocess.Popen[bytes], seen: Recording
) -> None:
    """Load the server while ``recorder`` records it, and take note of what else the machine did; ends the recorder."""
    meters = []
    with _ended(recorder):
        result = run_load(
            server.address,
            sources,
            seconds=seconds + 2,
            observe=lambda: meters.append((read_meter(server.pid), read_meter(recorder.pid).server)),
        )
        if recorder.wait(timeout=SAVING_S):
            raise StartError("py-spy could not record: it needs the right to trace this user's processes (ptrace)")
    (first, spied_before), (last, spied) = meters
    used = last.server - first.server + last.client - first.client + spied - spied_before
    seen.others = max(seen.others, (last.machine - first.machine - used) / (last.at - first.at))
    seen.rate = result.rate
    seen.failures += result.failures


def _spy(pid: int, seconds: int, output: Path, kind: str) -> subprocess.Popen[bytes]:
    """Start recording the stacks of whichever thread holds the GIL."""
    command = [str(Path(sys.executable).with_name("py-spy")), "record", "--gil", "--format", kind]
    command += ["--output", str(output), "--pid", str(pid), "--duration", str(seconds), "--rate", str(RATE_HZ)]
    # A group of its own: Ctrl-C reaches only this process, which ends it.
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the process whatever happens."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _name(picture: Path, title: str) -> None:
    """Put the workload's name where py-spy writes its command line, with the paths of this machine."""
    text = TITLE.sub(rf"\g<1>{escape(title.replace('`', ''))}\g<2>", picture.read_text(encoding="utf-8"), count=1)
    picture.write_text(text, encoding="utf-8")


def _table(stacks: str) -> str:
    """Return, as Markdown, which functions were on top and in how many samples each was anywhere on the stack."""
    on_top: Counter[str] = Counter()
    anywhere: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        names = [LINE_NUMBER.sub(")", frame) for frame in frames.split(";")]
        on_top[names[-1]] += int(count)
        anywhere.update(dict.fromkeys(names, int(count)))
    total = on_top.total() or 1
    lines = ["| function | on top | with what it called |", "|---|---|---|"]
    for name, samples in on_top.most_common(SHOWN):
        lines.append(f"| `{name}` | {samples / total:.1%} | {anywhere[name] / total:.1%} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
