"""The one way a command of the laboratory runs: its arguments, its record printed and kept, its section published."""

import sys
import time
from collections.abc import Callable
from typing import Final

from perf.findings import Finding, Record, markdown, now, save
from perf.rig.arguments import Parser
from perf.rig.console import say
from perf.rig.machine import describe
from perf.rig.site_setup import ROOT
from perf.shortfalls import PAGE, publish

RESULTS: Final = ROOT / "perf" / "results"


def parser(name: str, description: str | None, *, quick: str) -> Parser:
    """Return the command line of ``python -m perf.<name>`` with the options that every command has.

    Args:
        name: the module below ``perf``.
        description: its docstring, of which the first line is shown.
        quick: what ``--quick`` does, apart from keeping the result out of what is committed.
    """
    made = Parser(prog=f"python -m perf.{name}", description=(description or "").split("\n", 1)[0])
    made.add_argument("--quick", action="store_true", help=f"{quick}; the result goes to perf/results/raw/")
    made.add_argument("--update-readme", action="store_true", help="put the result into docs/performance/laboratory.md")
    return made


def keep(
    name: str,
    hypothesis: str,
    measure: Callable[[], Finding],
    *,
    quick: bool,
    update_readme: bool = False,
    section: str = "",
    saved: bool = True,
) -> Finding:
    """Measure, print what was found and keep it.

    Args:
        name: of the result's files, and of its section of docs/performance/laboratory.md unless ``section`` is another.
        hypothesis: what was expected before.
        measure: does the work.
        quick: the result is not committed, nor published.
        update_readme: whether the section is replaced.
        section: the section's name where it is not ``name``.
        saved: whether files are written: a part of a run is only printed.
    """
    machine, started_at, began = describe(ROOT), now(), time.monotonic()
    finding = measure()
    record = Record(name, hypothesis, started_at, time.monotonic() - began, quick, machine, finding)
    text = markdown(record, plots="../../perf/results/plots")
    sys.stdout.write(f"\n{text}\n")
    for path in save(record, RESULTS) if saved else []:
        say(f"written: {path.relative_to(ROOT)}")
    if update_readme and not quick:
        publish(PAGE, section or name, f"*Expected:* {hypothesis}\n\n{text}")
    return finding
