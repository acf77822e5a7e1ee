"""What is broken, and how it is mended: each case is a step while people use the site, and what it must not cost."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from perf.failover import etcd
from perf.failover.applications import Users
from perf.failover.history import History
from perf.failover.machines import Cluster, DatabaseMachine
from perf.failover.people import Crowd, Seen
from perf.failover.site import ClusterSite
from perf.nodes.watch import UNAVAILABLE, Answers
from perf.rig.processes import StartError

#: Seconds: a lost primary costs up to Patroni's ttl (20), its loop, and a checkpoint; then PostgreSQL has to answer.
LIMIT_S: Final = 60.0
_REFUSAL: Final = re.compile(r": 40[01] ")  # in the words of `Answers`
BEHIND_S: Final = 0.5  # of replicas that do not confirm: a network or disk that pauses
_AROUND_S: Final = 2.0  # of load before the step, and after its recovery


class Case(NamedTuple):
    """One kind of failure.

    Attributes:
        what: It in words.
        step: Breaks something and returns what it broke.
        ceiling_s: Longest wanted time without a committed refresh, the median of its rounds; seconds.
        refuses_writes: Whether what was broken is a former primary that must take no writes afterwards.
        rounds: How often, in a whole run.
        asynchronous: Commits wait for no replica. What is lost then is counted, and promised to nobody.
        outage_s: Nothing can be written until something is mended; that is so many seconds after the step. What is
            measured begins with the mending.
        mending: What it is.
    """

    what: str
    step: Callable[[ClusterSite], DatabaseMachine | None]
    ceiling_s: float
    rounds: int
    refuses_writes: bool = False
    asynchronous: bool = False
    outage_s: float = 0.0
    mending: Callable[[ClusterSite], None] = lambda _site: None


@dataclass
class Round:
    """One failure, as people saw it.

    Attributes:
        case: The name of the case.
        route: The way to the database.
        gap_s: Longest time without a committed refresh, from the failure on, or from the mending on; seconds.
        answers: All of them.
        seen: What people saw.
        sessions: How many histories were judged.
        operations: Of how many operations.
        illegal: Those that are not linearizable.
        took_s: How long after the failure refreshes were committed before anything was mended; seconds.
        wrote: What a former primary said to a write, where it should have refused it.
    """

    case: str
    route: str
    gap_s: float
    answers: Answers
    seen: Seen
    sessions: int = 0
    operations: int = 0
    illegal: list[str] = field(default_factory=list)
    wrote: list[str] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def unavailable(self) -> int:
        """How many answers were 503."""
        return self.answers.statuses[UNAVAILABLE]

    @property
    def promised(self) -> bool:
        """Whether an acknowledged write may not be lost."""
        return not CASES[self.case].asynchronous

    @property
    def mistaken(self) -> list[str]:
        """Answers that may not be. Where a write may be lost, what rests on it may be refused."""
        return [text for text in self.answers.wrong if self.promised or not _REFUSAL.search(text)]

    @property
    def broken(self) -> list[str]:
        """What may not be, in words."""
        return [*self.mistaken, *(self.illegal if self.promised else []), *self.wrote]


def _lose_primary(site: ClusterSite) -> DatabaseMachine:
    lost = site.cluster.primary
    lost.kill()
    return lost


def _lose_primary_ahead(site: ClusterSite) -> DatabaseMachine:
    lost = site.cluster.primary
    lost.hold_back_wal()
    time.sleep(BEHIND_S)
    lost.kill()
    return lost


def _switch_over(site: ClusterSite) -> None:
    site.cluster.switch_over()


def _cut_primary(site: ClusterSite) -> DatabaseMachine:
    cut = site.cluster.primary
    cut.machine.cut("postgres")
    return cut


def _freeze_primary(site: ClusterSite) -> DatabaseMachine:
    frozen = site.cluster.primary
    etcd.lead(frozen, site.cluster.machines)  # the worst: an etcd that led counts on from where it stood still
    frozen.freeze()
    return frozen


def _lose_etcd(site: ClusterSite) -> DatabaseMachine:
    lost = site.cluster.replicas[0]
    lost.kill("etcd")
    return lost


def _lose_two_etcds(site: ClusterSite) -> DatabaseMachine:
    one, other = site.cluster.replicas
    one.kill("etcd")
    other.kill("etcd")
    return one


def _start_etcd(site: ClusterSite) -> None:
    next(machine for machine in site.cluster.machines if not machine.runs("etcd")).start("etcd")


def _lose_replica(site: ClusterSite) -> DatabaseMachine:
    cluster = site.cluster
    following = cluster.primary.status().get("replication") or []
    confirming = {one["application_name"] for one in following if one.get("sync_state") == "sync"}
    lost = next((machine for machine in cluster.replicas if machine.name in confirming), cluster.replicas[0])
    lost.kill("patroni")
    return lost


def _lose_redis(site: ClusterSite) -> DatabaseMachine:
    lost = site.cluster.redis_master()
    lost.kill("redis", "sentinel")
    return lost


def _cut_node(site: ClusterSite) -> None:
    site.b.machine.cut("web", "postgres", "redis")


#: By name. What a lost node had begun waits 12 s for nginx (deploy/nginx/proxy.conf).
CASES: Final = {
    "primary": Case("the machine of the primary is lost (kill -9 of everything on it)", _lose_primary, 25.0, 10),
    "switchover": Case("switchover", _switch_over, 3.0, 5),
    "cut": Case("the primary is cut off from everybody", _cut_primary, 25.0, 2, refuses_writes=True),
    "frozen": Case(
        "the machine of the primary stands still, and goes on when another took over", _freeze_primary, 25.0, 2,
    ),
    "etcd": Case("one etcd of three is lost", _lose_etcd, 2.0, 2),
    "etcd_majority": Case(
        "two etcds of three are lost, and one is back after 30 s (counted from then)", _lose_two_etcds, 10.0, 2,
        outage_s=30.0, mending=_start_etcd,
    ),
    "replica": Case("the replica that confirms commits is lost", _lose_replica, 10.0, 2),
    "redis": Case("the master of Redis and a Sentinel are lost", _lose_redis, 2.0, 2),
    "node": Case("one IronAuth node is cut off from everything", _cut_node, 14.0, 2),
    "asynchronous": Case(
        "without synchronous_mode, which is not how the kit is set up: the machine of the primary is lost (kill -9)",
        _lose_primary, 25.0, 2, asynchronous=True,
    ),
    "asynchronous_behind": Case(
        f"without synchronous_mode: the primary is lost when its replicas have got nothing for {BEHIND_S:g} s",
        _lose_primary_ahead, 25.0, 2, asynchronous=True,
    ),
}  # fmt: skip


def run(site: ClusterSite, name: str, route: str, folder: Path) -> Round:
    """Break something while people use the site, wait until it works again, mend it, and judge what people were told.

    Args:
        site: Where.
        name: Of the case.
        route: To the database.
        folder: For the histories.

    Raises:
        StartError: something was not as it has to be before, or did not come back.
    """
    site.by(route)
    site.cluster.settled()
    history = History()
    with site.cluster.replicating(synchronous=not CASES[name].asynchronous):
        found = asyncio.run(_under_load(site, name, route, history))
        history.stored(_sessions(site.cluster))
    found.sessions, found.operations = history.sessions, len(history.operations)
    found.illegal = history.judge(folder)
    return found


def _sessions(cluster: Cluster) -> dict[UUID, tuple[int, bool]]:
    """Return the generation of every session that the primary has, and whether it has ended."""
    done = cluster.primary.local_sql("SELECT id, generation, revoked_at IS NOT NULL FROM tokens_session")
    if done.returncode:
        raise StartError(f"the sessions could not be read: {done.stderr[:300]}")
    rows = [line.split("|") for line in done.stdout.splitlines() if "|" in line]
    return {UUID(sid): (int(generation), ended == "t") for sid, generation, ended in rows}


async def _under_load(site: ClusterSite, name: str, route: str, history: History) -> Round:
    case, crowd = CASES[name], Crowd(site, history)
    users = Users(site, history, crowd.answers, crowd.seen)
    found = Round(name, route, float("inf"), crowd.answers, crowd.seen)
    async with crowd.around(), users.around():
        await asyncio.sleep(_AROUND_S)
        began = time.monotonic()
        broken = await asyncio.to_thread(case.step, site)
        try:
            if case.outage_s:
                await asyncio.sleep(case.outage_s)
                began = await _begin_again(site, case, found, began)
            await _recovered(crowd.seen, began, case)
            if case.refuses_writes and broken is not None:
                found.wrote = await asyncio.to_thread(_writes, broken)
        finally:
            await asyncio.to_thread(_mend, site, broken)
        found.gap_s = longest_gap(crowd.seen.committed, began)
        await asyncio.to_thread(site.cluster.settled)
        await asyncio.sleep(_AROUND_S)
    await crowd.watched()
    return found


async def _begin_again(site: ClusterSite, case: Case, found: Round, began: float) -> float:
    """Note until when writes were taken, mend, and return the time of the mending."""
    found.took_s = max((done - began for _, done in found.seen.committed), default=0.0)
    mended = time.monotonic()
    await asyncio.to_thread(case.mending, site)
    return mended


async def _recovered(seen: Seen, began: float, case: Case) -> None:
    """Return when refreshes that were sent after the failure are committed, without a pause for some seconds."""
    steady = max(_AROUND_S, min(case.ceiling_s, 5.0))
    until = began + LIMIT_S
    while time.monotonic() < until:
        await asyncio.sleep(0.2)
        now = time.monotonic()
        if now - began < steady:
            continue
        recent = [done for sent, done in seen.committed if sent > now - steady]
        if recent and longest_gap(seen.committed, now - steady) < 1.0 and now - max(recent) < 1.0:
            return
    raise StartError(f"no refresh was committed for {LIMIT_S:.0f} s after: {case.what}")


def longest_gap(committed: list[tuple[float, float]], began: float) -> float:
    """Return the longest time after ``began`` in which no refresh was answered; seconds.

    A refresh that was sent before the failure counts for nothing: it may have been committed by then.
    """
    ends = sorted(done for sent, done in committed if sent >= began)
    return max((after - before for before, after in zip([began, *ends], ends, strict=False)), default=float("inf"))


def _writes(former: DatabaseMachine) -> list[str]:
    """Return what a former primary said to a write that it took; empty where it refused, as it must."""
    done = former.local_sql("INSERT INTO django_session VALUES (md5(random()::text), 'x', now())")
    return [] if done.returncode else [done.stdout.strip() or "it was taken"]


def _mend(site: ClusterSite, broken: DatabaseMachine | None) -> None:
    site.b.machine.heal("web", "postgres", "redis")
    if broken is not None:
        broken.machine.heal("postgres")
        broken.thaw()
    for machine in site.cluster.machines:
        machine.start()


def everything(cluster: Cluster) -> str:
    """Return the versions of what was started, for the report."""
    said = cluster.primary.status()
    version = int(said.get("server_version", 0))
    patroni = said.get("patroni", {}).get("version", "")
    return f"PostgreSQL {version // 10000}.{version % 10000}, Patroni {patroni}, etcd {etcd.version()}"
