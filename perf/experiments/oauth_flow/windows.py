"""One window of flows at one server, and what several of them come to."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from perf.experiments.oauth_flow.sites import Site
from perf.load.oauth_flow import STEPS, run_flows
from perf.rig.processes import Meter, ThreadTimes, read_meter, thread_times
from perf.rig.seed import PASSWORD
from perf.summary import percentile_ms


class Window(msgspec.Struct):
    """One window. ``steps``: latencies in ns; CPU times in seconds, of the server's threads that hash and the others.

    ``database_s``: CPU time of Postgres and Redis; ``other_cores``: kept busy by neither servers nor clients.
    """

    clients: int
    seconds: float
    flows: int
    steps: dict[str, list[int]]
    hashing_s: float
    rest_s: float
    database_s: float
    other_cores: float
    failures: dict[str, int]
    shed: int

    @property
    def rate(self) -> float:
        """Flows completed in a second."""
        return self.flows / self.seconds


class Measured:
    """The windows of one number of clients at one server."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = list(windows)
        self._steps = {step: sorted(ns for one in windows for ns in one.steps[step]) for step in STEPS}
        #: Sign-ins, each with a hash: more than flows in a window that ends with many on their way.
        self.hashes = len(self._steps["sign-in"])

    @property
    def rate(self) -> float:
        """Flows completed in a second, the median."""
        return statistics.median(one.rate for one in self.windows)

    @property
    def rest_cpu_ms(self) -> float:
        """The server's CPU time for a flow without its hash: that of all threads which do not hash."""
        return self._for_a_flow(sum(one.rest_s for one in self.windows))

    @property
    def database_cpu_ms(self) -> float:
        """What Postgres and Redis add to it; 0 on SQLite."""
        return self._for_a_flow(sum(one.database_s for one in self.windows))

    def subtracted_cpu_ms(self, hash_ms: float) -> float:
        """Return the server's whole CPU time for a flow without ``hash_ms``, a hash' without rivals."""
        whole = sum(one.rest_s + one.hashing_s for one in self.windows)
        return self._for_a_flow(whole - self.hashes * hash_ms / 1_000)

    def ms(self, step: str, percent: float) -> float:
        """Return a percentile of a step; infinite without an answer, so that no promise is met by silence."""
        return percentile_ms(self._steps[step], percent) if self._steps[step] else float("inf")

    @property
    def failures(self) -> Counter[str]:
        """What was wrong or missing."""
        return sum((Counter(one.failures) for one in self.windows), Counter())

    @property
    def shed(self) -> int:
        """Sign-ins refused with 503 and Retry-After."""
        return sum(one.shed for one in self.windows)

    def _for_a_flow(self, seconds: float) -> float:
        """Return ms of each flow; a flow is counted by the mean of its five steps: ends and beginnings are cut off."""
        answers = sum(len(each) for each in self._steps.values())
        return 1_000 * seconds * len(STEPS) / answers if answers else float("inf")


def measure(site: Site, emails: Iterator[str], *, clients: int, seconds: float, ramp_s: float) -> Window:
    """Have so many clients sign people in, and read the meters where the window begins and ends."""
    marks: list[tuple[Meter, ThreadTimes]] = []

    def observe() -> None:
        marks.append((read_meter(site.server.pid), thread_times(site.server.pid)))

    result = run_flows(
        site.server.address, site.application, clients=clients, seconds=seconds, ramp_s=ramp_s, emails=emails,
        password=PASSWORD, observe=observe,
    )  # fmt: skip
    (before, threads_before), (after, threads_after) = marks
    used = {
        name: getattr(after, name) - getattr(before, name) for name in ("at", "server", "client", "machine", "beside")
    }
    others = (used["machine"] - used["server"] - used["client"] - used["beside"]) / used["at"]
    return Window(
        clients, seconds, len(result.flows), result.steps,
        threads_after.hashing - threads_before.hashing, threads_after.rest - threads_before.rest,
        used["beside"], max(others, 0.0), dict(result.failures), result.shed,
    )  # fmt: skip
