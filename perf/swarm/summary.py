"""A run as people read it."""

from collections.abc import Sequence

import msgspec

from perf.rig.machine import Machine
from perf.swarm.thresholds import Entry, Result, Verdict

SHOWN = 10  # different reasons for failures; the JSON has all of them


class Summary(msgspec.Struct):
    """A run with everything it depends on."""

    started_at: str
    about: str
    machine: Machine
    result: Result
    verdicts: Sequence[Verdict]
    notes: Sequence[str]

    @property
    def kept(self) -> bool:
        """Whether every limit was kept."""
        return all(verdict.kept for verdict in self.verdicts)


def markdown(summary: Summary) -> str:
    """Render the table, the verdicts, and what went wrong."""
    result, machine, tally = summary.result, summary.machine, summary.result.tally
    columns = ("request", "answers", "failed", "per second", "p50 ms", "p95 ms", "p99 ms", "longest ms")
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    lines += [_row(entry) for entry in result.entries]
    facts = _judged(summary)
    facts += [f"FAILED {each.count:,} times: {each.where}: {each.reason}" for each in result.failures[:SHOWN]]
    facts += [f"ERROR {each.count:,} times: {each.reason} ({each.where})" for each in result.exceptions[:SHOWN]]
    facts += [f"shed {count:,} times: {name}" for name, count in sorted(tally.shed.items())]
    facts += summary.notes
    shares = sorted(tally.answers.items(), key=lambda share: int(share[0]))
    facts += [
        f"sessions opened {tally.sessions_opened:,}, closed {tally.sessions_closed:,}",
        f"newcomers' accounts made {tally.accounts_made:,}, closed {tally.accounts_closed:,}",
        f"expired access tokens renewed: {tally.renewed:,}",
        f"requests by load generator process: {', '.join(f'{count:,}' for _, count in shares)}",
    ]
    if tally.busy_generator:
        facts.append(
            "NOT TO BE TRUSTED: the load generator was over 90% busy, so its latencies are its own: --processes"
        )
    facts.append(
        f"{summary.started_at}, {result.shape}, at most {result.users} users in {result.processes} process"
        f"{'es' if result.processes > 1 else ''}, {result.seconds:.0f} s; {summary.about}; commit {machine.commit}; "
        f"{machine.cpu}, {machine.cores} cores, load average {machine.load_average:.2f} at the start."
    )
    return "\n".join([*lines, "", *(f"- {fact}" for fact in facts), ""])


def _judged(summary: Summary) -> list[str]:
    """Return the verdicts; of a test that was stopped only the figures, because the thresholds are for whole ones."""
    if not summary.result.cut_short:
        return [*map(str, summary.verdicts)]
    figures = [f"{verdict.what}: {verdict.measured}" for verdict in summary.verdicts]
    return ["stopped before its time: held against no threshold", *figures]


def _row(entry: Entry) -> str:
    times = (entry.p50_ms, entry.p95_ms, entry.p99_ms, entry.max_ms)
    cells = [f"`{entry.method} {entry.name}`", f"{entry.requests:,}", f"{entry.failures:,}", f"{entry.rate:,.1f}"]
    return f"| {' | '.join([*cells, *('' if value is None else f'{value:,g}' for value in times)])} |"
