"""The scenes of the flood experiment: idle, and flooded with sign-ins."""

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perf.experiments.flood.clients import Job, Outcome, together
from perf.experiments.flood.stalls import Stall, watching
from perf.load.workloads import Site
from perf.rig.hash_rate import HashRate, in_a_process
from perf.rig.processes import Server, environment_of, process_tree, read_meter
from perf.rig.site_setup import ARGON2

ME_RATE = 200.0  # requests/s, as the promise is worded
TIMES_CAPACITY = 4
ME_CONNECTIONS = 16
FLOOD_CONNECTIONS = 200  # more than ever wait: 4 s at the pool's rate, so that no request waits in the client
_LEAD_S = 1.2  # for the clients' own start, before they begin together
_RAMP_S = 0.5  # before the raw hash rate is counted
_NS_PER_US = 1_000


@dataclass(frozen=True)
class Spans:
    """How long everything lasts, in seconds. The ramp of a flood fills the queue, which takes 1.5 s."""

    idle: float
    ramp: float
    flood: float
    raw: float


FULL = Spans(idle=5, ramp=3, flood=10, raw=4)
QUICK = Spans(idle=2, ramp=3, flood=4, raw=2)


class Flooded(msgspec.Struct):
    """One round under the flood. ``loop_wait_us``: mean wait of the event loop's thread for a core when it woke.

    ``peak_mib`` is the resident memory of the server's processes at its highest; ``others`` are the cores kept busy by
    neither server nor clients; in ``stalls`` the machine itself stood still.
    """

    me: Outcome
    sign_ins: Outcome
    peak_mib: float
    loop_wait_us: float
    others: float
    stalls: list[Stall] = []


@dataclass
class Target:
    """A server with its supplies; ``person`` is the next who signs in."""

    server: Server
    person: int = 0

    def people(self, count: int) -> int:
        """Reserve people for a client, so that no two sign the same one in."""
        first, self.person = self.person, self.person + count
        return first

    def tokens(self) -> list[str]:
        """Sign people in for ``/me``, one for each of its connections."""
        return [pair.access_token for pair in Site(self.server).sign_in(ME_CONNECTIONS)]


def idle(target: Target, tokens: Sequence[str], spans: Spans) -> Outcome:
    """Ask for ``/me`` while nothing else happens."""
    return together([_me(target, tokens, 0.5, spans.idle, time.monotonic() + _LEAD_S)])[0]


def flooded(target: Target, tokens: Sequence[str], spans: Spans, rate: float) -> Flooded:
    """Ask for ``/me`` while ``rate`` sign-ins a second arrive."""
    pid = target.server.pid
    begin_at = time.monotonic() + _LEAD_S
    sign_ins = Job(
        "sign-in",
        target.server.port,
        FLOOD_CONNECTIONS,
        spans.ramp,
        spans.flood,
        begin_at,
        rate=rate,
        first_person=target.people(round(rate * (spans.ramp + spans.flood))),
    )
    forget_peak(pid)
    meter, clients, waits = read_meter(pid), _clients_cpu_s(), _run_queue(pid)
    with watching(_LEAD_S + spans.ramp + spans.flood) as stalls:
        me, signed_in = together([_me(target, tokens, spans.ramp, spans.flood, begin_at), sign_ins])
    after, waits_after = read_meter(pid), _run_queue(pid)
    used = after.server - meter.server + after.client - meter.client + _clients_cpu_s() - clients
    return Flooded(
        me=me,
        sign_ins=signed_in,
        peak_mib=peak_mib(pid),
        loop_wait_us=(waits_after[0] - waits[0]) / max(waits_after[1] - waits[1], 1) / _NS_PER_US,
        others=max(after.machine - meter.machine - used, 0.0) / (after.at - meter.at),
        stalls=stalls,
    )


def raw_rate(server: Server, threads: int, seconds: float) -> HashRate:
    """Measure what the pool's threads can do at most, with the malloc settings the server really has."""
    tunables = environment_of(server.pid, "GLIBC_TUNABLES")
    return in_a_process(threads=threads, seconds=seconds, ramp_s=_RAMP_S, cost=ARGON2, tunables=tunables)


def forget_peak(pid: int) -> None:
    """Let the kernel's record of the highest resident memory begin anew (proc_pid_clear_refs(5))."""
    for member in process_tree(pid):
        Path(f"/proc/{member}/clear_refs").write_text("5")


def peak_mib(pid: int) -> float:
    """Return the highest resident memory of a process and its descendants, added up, in MiB."""
    status = [Path(f"/proc/{member}/status").read_text() for member in process_tree(pid)]
    return sum(int(text.partition("VmHWM:")[2].split(maxsplit=1)[0]) for text in status) / 1024


def _me(target: Target, tokens: Sequence[str], ramp_s: float, seconds: float, begin_at: float) -> Job:
    port = target.server.port
    return Job("me", port, ME_CONNECTIONS, ramp_s, seconds, begin_at, rate=ME_RATE, tokens=tokens)


def _clients_cpu_s() -> float:
    """Return the CPU time of the clients that have ended; seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_queue(pid: int) -> tuple[int, int]:
    """Return how long the process' first thread, the event loop's, waited for a core (ns), and how often it ran."""
    _, waited_ns, times = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(waited_ns), int(times)
