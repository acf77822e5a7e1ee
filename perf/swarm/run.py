"""A swarm from beginning to end: prepare a server and people, run Locust, judge, clean, report.

Exit status: 0 every threshold was kept; 1 something failed or a threshold was missed; 2 something did not start;
130 interrupted. The last is also what Ctrl-C gives headless; Locust's page is ended by it, so that is 0.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path

import msgspec

from perf.findings import now
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.machine import describe
from perf.rig.processes import StartError, free_port
from perf.rig.site_setup import ROOT
from perf.swarm import assignment as assignments
from perf.swarm.assignment import Assignment
from perf.swarm.options import Options, parse
from perf.swarm.site import Site, open_site
from perf.swarm.thresholds import Result, Summary, judge, kinds, markdown

STOP_TIMEOUT_S = 45  # a user still at it this long after the end is cut off, and what it leaves behind is reported
ENDING_S = 150.0  # Locust's start and its last stage; beyond this it is stuck
GRACE_S = 10.0  # from SIGTERM to SIGKILL
type Beside = Callable[[Site], AbstractContextManager[object]]


def main() -> int:
    """Run what the command line asks for."""
    leave_by_interrupt()
    options = parse()
    return status_of(lambda: _status(options))


def _status(options: Options) -> int:
    summary = run(options)
    return 0 if summary is None or options.ui or summary.kept else 1


def run(options: Options, *, beside: Beside = nullcontext) -> Summary | None:
    """Let a swarm loose; print what came of it, and keep that. None when Locust's page was looked at without a test.

    ``beside``: entered with the site while the users are at work; its exit comes before the site is inspected.

    Raises:
        StartError: something did not start, or Locust did not end.
    """
    machine, started_at = describe(ROOT), now()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-swarm-")))
        ledger = folder / "ledger"
        ledger.mkdir(mode=0o700)
        if options.ui:
            _require_free(options.web_port)
        site = open_site(options, folder, ledger, stack, say)
        given = _assignment(options, site, folder, ledger)
        stem = _stem(options, started_at)
        stem.parent.mkdir(parents=True, exist_ok=True)
        site.begin()
        if options.ui:
            _open_page(given, options, folder)
            status = 0
        else:
            say(f"{options.shape}: at most {options.users} users for {options.seconds:g} s at {site.host}")
            with beside(site):
                status = _run_locust(given, _headless(stem), folder, options.seconds + ENDING_S)
        result = _result(given, status)
        if options.ui and not result.requests:
            return None  # the page was looked at, and no test started
        say("looking at what was left behind")
        verdicts, notes = site.inspect(result)
        verdicts = [*judge(result, given.limits, kinds(given.application)), *verdicts]
        summary = Summary(started_at, site.about, machine, result, verdicts, notes)
    sys.stdout.write(f"\n{markdown(summary)}\n")
    if not options.ui:
        _save(summary, options, stem)
    return summary


def _result(given: Assignment, status: int) -> Result:
    """Read what Locust measured. Raises ``StartError`` when it came to nothing."""
    path = Path(given.result)
    if not path.exists():
        raise StartError(f"Locust ended with {status} before it measured anything: its reasons are above")
    return msgspec.json.decode(path.read_bytes(), type=Result)


def _save(summary: Summary, options: Options, stem: Path) -> None:
    """Keep the summary beside Locust's files, and unless quick where it is committed too."""
    for place in [stem] if options.quick else [stem, options.results / "swarm" / stem.name]:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
        place.with_suffix(".md").write_text(f"# Swarm: {options.shape}\n\n{markdown(summary)}", encoding="utf-8")
        say(f"written: {_shown(place)}.json and .md")
    say(f"Locust's report: {_shown(stem)}.html, its statistics beside it")
    say("every threshold was kept" if summary.kept else "MISSED: see the lines above")


def _shown(path: Path) -> Path:
    """Return a path as it is read best from the repository's folder."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _stem(options: Options, started_at: str) -> Path:
    """Return the path of the run's files without suffix: Locust's own are large and not committed."""
    variant = "-postgres" if options.storage == "postgres" else ""
    variant += "-given" if options.host else ""
    quick = "quick-" if options.quick else ""
    return options.results / "raw" / "swarm" / f"{started_at[:10]}-{quick}{options.shape}{variant}"


def _assignment(options: Options, site: Site, folder: Path, ledger: Path) -> Assignment:
    of_the_run = "shape users seconds spawn_rate processes people think rate limits"
    of_the_site = "host address password prefix revocation application"
    return Assignment(
        **{name: getattr(options, name) for name in of_the_run.split()},
        **{name: getattr(site, name) for name in of_the_site.split()},
        ledger=str(ledger),
        result=str(folder / "result.json"),
    )


def _headless(stem: Path) -> list[str]:
    return [
        "--headless", "--only-summary", "--html", f"{stem}.html",
        "--csv", str(stem), "--csv-full-history", "--json-file", f"{stem}_locust",
    ]  # fmt: skip


def _open_page(given: Assignment, options: Options, folder: Path) -> None:
    """Have Locust show its page until Ctrl-C."""
    page = f"http://127.0.0.1:{options.web_port}"
    say(f"Locust's page: {page} (the server: {given.host}). Ctrl-C ends both.")
    arguments = ["--web-host", "127.0.0.1", "--web-port", str(options.web_port)]
    arguments += ["--json-file", str(folder / "locust")]  # the terminal has our own tables
    try:
        status = _run_locust(given, arguments, folder, None)
    except KeyboardInterrupt:
        say("ended")
        return
    raise StartError(f"Locust ended with {status}: its reasons are above")


def _run_locust(given: Assignment, arguments: list[str], folder: Path, limit_s: float | None) -> int:
    """Run Locust to its end, and end it and all its processes whatever happens; return its exit status.

    Raises:
        StartError: it did not end within ``limit_s``.
    """
    port = str(free_port())
    command = [
        sys.executable, "-m", "locust", "--locustfile", str(ROOT / "perf" / "swarm" / "locustfile.py"),
        "--host", given.host, "--users", str(given.users), "--spawn-rate", str(given.spawn_rate),
        "--stop-timeout", str(STOP_TIMEOUT_S), "--loglevel", "WARNING", *arguments,
    ]  # fmt: skip
    if given.processes > 1:
        command += ["--processes", str(given.processes), "--master-bind-host", "127.0.0.1"]
        command += ["--master-bind-port", port, "--master-host", "127.0.0.1", "--master-port", port]
    # Locust reads every LOCUST_ variable as an option; the load is what the command line says.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    environment |= assignments.write(given, folder / "assignment.json")
    # A session of its own: Ctrl-C reaches only this process, which ends Locust in good order.
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired as error:
        raise StartError(f"Locust did not end within {limit_s} s") from error
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Locust and its workers: SIGTERM, and SIGKILL to those of its session that are left."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):  # the next lines end it then
            process.wait(GRACE_S)
    with suppress(ProcessLookupError):  # nothing of it is left, as it should be
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise StartError(
                f"Port {port} cannot be used ({error.strerror}): choose another with --web-port"
            ) from error
