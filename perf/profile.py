"""Flame graphs of a server under load: where the time of one workload goes.

``python -m perf.profile me --seconds 10`` starts the servers of the benchmark, warms the workload up, records with
py-spy while it runs, and writes ``perf/results/profiles/<date>-<workload>.svg`` and a table of the modules and
functions that were on top. Exit status: 0 recorded; 1 an answer was wrong; 2 a server or py-spy did not start.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from ironauth.infrastructure.configuration import default_hash_threads
from perf.bench.servers import start_servers
from perf.load.closed_loop import run_load
from perf.load.workloads import HASH, WORKLOADS
from perf.rig.processes import StartError, pin
from perf.rig.site_setup import ROOT

CONNECTIONS = 16
RATE_HZ = 500  # samples a second: 5,000 in ten seconds, while the server loses about 3 % of its rate
MAX_SECONDS = 60
SHOWN = 25  # lines of the table
LINE_NUMBER = re.compile(r":\d+\)$")
TITLE = re.compile(r'(<text id="title"[^>]*>)[^<]*(</text>)')
FOLDER = ROOT / "perf" / "results" / "profiles"


def main() -> int:
    """Record, draw, print."""
    names = [workload.name for workload in WORKLOADS if workload.name != HASH]
    parser = argparse.ArgumentParser(prog="python -m perf.profile", description=__doc__.split("\n", 1)[0])
    parser.add_argument("workload", choices=names)
    parser.add_argument("--seconds", type=int, default=10, help=f"1 to {MAX_SECONDS} (default: 10)")
    given = parser.parse_args()
    if not 1 <= given.seconds <= MAX_SECONDS:
        parser.error(f"--seconds must be 1 to {MAX_SECONDS}")
    try:
        return _record(given.workload, given.seconds)
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _record(name: str, seconds: int) -> int:
    workload = next(each for each in WORKLOADS if each.name == name)
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{datetime.now(UTC):%Y-%m-%d}-{name}"
    every = os.sched_getaffinity(0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-profile-")))
        servers = start_servers(folder, hash_threads=default_hash_threads(), stack=stack)
        server = servers.named(workload.server)
        sources = workload.sources(servers.site, servers.bare, CONNECTIONS)
        if not workload.hashing:
            pin(server.pid, {min(every)})
            os.sched_setaffinity(0, {max(every)})
        run_load(server.address, sources, seconds=1)
        raw = folder / "raw"
        # One recording is one format: first the picture, then the counts.
        picture, counts = ((target.with_suffix(".svg"), "flamegraph"), (raw, "raw"))
        failures: Counter[str] = Counter()
        for output, kind in (picture, counts):
            recorder = _spy(server.pid, seconds, output, kind)
            result = run_load(server.address, sources, seconds=seconds + 2)
            failures += result.failures
            if recorder.wait(timeout=60):
                raise StartError("py-spy could not record: it needs the right to trace this user's processes (ptrace)")
        table = _table(raw.read_text(encoding="utf-8"))
    _name(target.with_suffix(".svg"), workload.title)
    rate = f"{result.rate:,.0f} requests/s while recorded"
    target.with_suffix(".md").write_text(f"# {workload.title}\n\n{rate}.\n\n{table}", encoding="utf-8")
    sys.stdout.write(
        f"{table}\n{rate}, failed: {dict(failures) or 'none'}\nwritten: {target.relative_to(ROOT)}.svg, .md\n"
    )
    return 1 if failures else 0


def _spy(pid: int, seconds: int, output: Path, kind: str) -> subprocess.Popen[bytes]:
    """Start recording the stacks of whichever thread holds the GIL."""
    command = [str(Path(sys.executable).with_name("py-spy")), "record", "--gil", "--format", kind]
    command += ["--output", str(output), "--pid", str(pid), "--duration", str(seconds), "--rate", str(RATE_HZ)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


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
