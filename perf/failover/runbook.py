"""The runbook of docs/operate/high-availability.md, tried on three machines: ``python -m perf.failover.runbook``.

Linux and root only, as ``perf.failover``, and with the same packages. Exit status: 0 all that was written is there
afterwards; 1 something is not; 2 something did not start; 130 interrupted.
"""

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from ironauth.tests.services import find_binary
from perf.failover.etcd import etcdctl
from perf.failover.machines import Cluster, DatabaseMachine
from perf.failover.patroni import install_patroni
from perf.nodes import network
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.processes import StartError

STATE: Final = "/service/ironauth/"  # of Patroni in etcd
INITDB: Final = ("--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums")  # as deploy/patroni/patroni.yml
ALONE: Final = "-c listen_addresses=''"  # nobody but us connects
_PROMOTED_S: Final = 60.0


class Rehearsal:
    """The cluster, and what was written to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._written = 0
        self._sql("CREATE TABLE rehearsed (n integer PRIMARY KEY)")

    def write(self) -> None:
        """Write one row more, as soon as something takes it."""
        self._written += 1
        self.cluster.wait(self._inserted, "a write")

    def _inserted(self) -> bool:
        with suppress(StartError):
            self._sql(f"INSERT INTO rehearsed VALUES ({self._written}) ON CONFLICT DO NOTHING")  # noqa: S608 - a number
            return True
        return False

    def forget(self, rows: int) -> None:
        """Expect so many rows less, which a restore has left out."""
        self._written -= rows

    @property
    def wrong(self) -> str:
        """What the primary has, if that is not what was written; else ""."""
        there = self._sql("SELECT string_agg(n::text, ',' ORDER BY n) FROM rehearsed")
        expected = ",".join(map(str, range(1, self._written + 1)))
        return "" if there == expected else f"{there} instead of {expected}"

    def _sql(self, sql: str) -> str:
        done = self.cluster.primary.local_sql(sql)
        if done.returncode:
            raise StartError(f"{sql}: {done.stderr[:300]}")
        return done.stdout.split("\n")[-2]

    def now(self) -> str:
        """Return the primary's time."""
        return self._sql("SELECT now()")

    def stop_patroni(self) -> DatabaseMachine:
        """Stop Patroni and PostgreSQL on each machine, the primary last, and return that one."""
        primary = self.cluster.primary
        for machine in [*self.cluster.replicas, primary]:
            machine.stop("patroni")
        return primary

    def start_patroni(self, first: DatabaseMachine) -> None:
        """Start it where the data are, and elsewhere when that machine leads."""
        first.start("patroni")
        self.cluster.wait(lambda: first.role in ("master", "primary"), "the restored primary")
        self.cluster.settled()


def upgrade(rehearsal: Rehearsal) -> None:
    """Move to another data folder by ``pg_upgrade``: of the same major version, where only one is installed."""
    rehearsal.write()
    primary = rehearsal.stop_patroni()
    made = primary.folder / "data-new"
    binaries = Path(find_binary("pg_controldata", "postgresql")).parent
    _as_postgres(primary, str(binaries / "initdb"), "-D", str(made), *INITDB)
    command = [str(binaries / "pg_upgrade"), "-b", str(binaries), "-B", str(binaries)]
    command += ["-d", str(primary.folder / "data"), "-D", str(made)]
    _as_postgres(primary, *command, "--check")
    _as_postgres(primary, *command)
    for machine in rehearsal.cluster.machines:
        _put_aside(machine)
    made.rename(primary.folder / "data")
    etcdctl(primary, "del", f"{STATE}initialize")
    rehearsal.start_patroni(primary)


def back_to_a_point_in_time(rehearsal: Rehearsal) -> None:
    """Restore a base backup and the log up to a moment, and leave out what came later."""
    primary = rehearsal.cluster.primary
    archive, base = primary.folder.parent / "archive", primary.folder / "base"
    archive.mkdir()
    shutil.chown(archive, "postgres")
    keep = f"archive_command=test ! -f {archive}/%f && cp %p {archive}/%f"
    _patronictl(primary, "edit-config", "ironauth", "--force", "--pg", "archive_mode=on", "--pg", keep)
    machines = rehearsal.cluster.machines
    rehearsal.cluster.wait(lambda: all(one.status().get("pending_restart") for one in machines), "the new setting")
    _patronictl(primary, "restart", "ironauth", "--force")
    rehearsal.cluster.settled()
    primary, other = rehearsal.cluster.primary, rehearsal.cluster.replicas[0]
    password = primary.environment("node.env")["PATRONI_REPLICATION_PASSWORD"]
    copy = [find_binary("pg_basebackup", "postgresql-client"), "-h", other.address, "-U", "replicator"]
    _as_postgres(primary, "env", f"PGPASSWORD={password}", *copy, "-D", str(base), "-c", "fast")
    rehearsal.write()
    time.sleep(1)
    until = rehearsal.now()
    time.sleep(1)
    rehearsal.write()
    rehearsal.stop_patroni()
    for machine in rehearsal.cluster.machines:
        _put_aside(machine)
    data = primary.folder / "data"
    base.rename(data)
    settings = (data / "postgresql.conf").read_text(encoding="utf-8")
    settings = settings.replace(str(other.folder), str(primary.folder))  # machines of their own have the same folders
    settings += f"restore_command = 'cp {archive}/%f %p'\n"
    settings += f"recovery_target_time = '{until}'\nrecovery_target_action = 'pause'\n"
    (data / "postgresql.conf").write_text(settings, encoding="utf-8")
    (data / "standby.signal").unlink(missing_ok=True)  # the copy is of a machine that follows
    (data / "recovery.signal").touch()
    _promoted(primary, data)
    etcdctl(primary, "del", "--prefix", STATE)
    rehearsal.forget(1)
    rehearsal.start_patroni(primary)


def _promoted(machine: DatabaseMachine, data: Path) -> None:
    """Let PostgreSQL read the log up to the moment, alone; look, go on from there, and stop it."""
    control = str(Path(find_binary("pg_controldata", "postgresql")).parent / "pg_ctl")
    log = str(machine.folder / "restore.log")
    _as_postgres(machine, control, "-D", str(data), "-w", "-l", log, "-o", ALONE, "start")
    _comes(lambda: "paused" in _asked(machine, "SELECT pg_get_wal_replay_pause_state()"), "at the moment")
    _asked(machine, "SELECT pg_wal_replay_resume()")
    _comes(lambda: not (data / "recovery.signal").exists(), "promoted")
    _as_postgres(machine, control, "-D", str(data), "-w", "stop")


def _asked(machine: DatabaseMachine, sql: str) -> str:
    """Return what PostgreSQL answers on the machine itself, where nobody else can reach it."""
    psql = find_binary("psql", "postgresql-client")
    return _as_postgres(machine, psql, "--host", str(machine.folder), "--dbname", "postgres", "-tAc", sql)


def _comes(there: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _PROMOTED_S
    while not there():
        if time.monotonic() > until:
            raise StartError(f"the restored PostgreSQL was not {what} in {_PROMOTED_S:.0f} s")
        time.sleep(0.2)


def another_machine(rehearsal: Rehearsal) -> None:
    """Replace a machine that is lost for good by a new one."""
    rehearsal.write()
    lost = rehearsal.cluster.replicas[0]
    lost.kill()
    rehearsal.write()
    _join(rehearsal.cluster, rehearsal.cluster.primary, lost)
    rehearsal.cluster.settled()


def two_machines(rehearsal: Rehearsal) -> None:
    """Go on with the machine that confirmed commits, and give it two new ones."""
    rehearsal.write()
    _alone(rehearsal, confirmed=True)


def two_machines_and_the_last_writes(rehearsal: Rehearsal) -> None:
    """Go on with the machine that neither led nor confirmed: it is told that it may."""
    rehearsal.write()
    _alone(rehearsal, confirmed=False)


def _alone(rehearsal: Rehearsal, *, confirmed: bool) -> None:
    cluster = rehearsal.cluster
    following = cluster.primary.status().get("replication") or []
    confirming = {one["application_name"] for one in following if one.get("sync_state") == "sync"}
    left = next(one for one in cluster.replicas if (one.name in confirming) == confirmed)
    lost = [machine for machine in cluster.machines if machine is not left]
    for machine in lost:
        machine.kill()
    left.stop("etcd")
    left.start("etcd", ETCD_FORCE_NEW_CLUSTER="true")
    cluster.wait(lambda: bool(_answers(left)), "an etcd alone")
    left.stop("etcd")
    left.start("etcd")
    cluster.wait(lambda: bool(_answers(left)), "an etcd alone")
    if not confirmed:
        etcdctl(left, "del", f"{STATE}sync")
    cluster.wait(lambda: left.role in ("master", "primary"), "a primary alone")
    rehearsal.write()
    for machine in lost:
        _join(cluster, left, machine)
        cluster.wait(machine.replicates, "another replica")
    cluster.settled()


def _answers(machine: DatabaseMachine) -> str:
    with suppress(StartError):
        return etcdctl(machine, "get", f"{STATE}initialize")
    return ""


def _join(cluster: Cluster, member: DatabaseMachine, new: DatabaseMachine) -> None:
    """Make an empty machine one of etcd's and Patroni's, in the place of one of the same name."""
    for folder in ("data", "etcd"):
        shutil.rmtree(new.folder / folder, ignore_errors=True)
    listed = etcdctl(member, "member", "list")
    if found := re.search(rf"^(\w+), \w+, {new.name},", listed, re.MULTILINE):
        etcdctl(member, "member", "remove", found[1])
    settings: dict[str, str] = {}

    def added() -> bool:
        with suppress(StartError):  # "unhealthy cluster", until the last one that came has been there for some seconds
            told = etcdctl(member, "member", "add", new.name, f"--peer-urls=http://{new.address}:2380")
            settings.update(re.findall(r'^(ETCD_\w+)="(.*)"$', told, re.MULTILINE))
        return bool(settings)

    cluster.wait(added, "another etcd")
    new.start("etcd", **settings)
    new.start()


def _put_aside(machine: DatabaseMachine) -> None:
    """Keep the data that were, under another name: the way back."""
    aside = machine.folder / "data-before"
    shutil.rmtree(aside, ignore_errors=True)
    (machine.folder / "data").rename(aside)


def _as_postgres(machine: DatabaseMachine, *command: str) -> str:
    user = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups")
    return network.run(*machine.machine.within("env", f"--chdir={machine.folder}", *user, *command))


def _patronictl(machine: DatabaseMachine, *command: str) -> None:
    settings = [f"{name}={value}" for name, value in machine.environment("node.env").items()]
    program = find_binary("patronictl", "patroni")
    network.run(*machine.machine.within("env", *settings, program, "-c", str(machine.folder / "patroni.yml"), *command))


REHEARSALS: Final[dict[str, Callable[[Rehearsal], None]]] = {
    "machine": another_machine,
    "two_machines": two_machines,
    "last_writes": two_machines_and_the_last_writes,
    "upgrade": upgrade,
    "point_in_time": back_to_a_point_in_time,
}


def main() -> int:
    """Try the parts that the command line names, or all."""
    leave_by_interrupt()
    parser = argparse.ArgumentParser(prog="python -m perf.failover.runbook", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="part", help=f"{', '.join(REHEARSALS)}; all of them by default")
    names = parser.parse_args().names or list(REHEARSALS)
    if unknown := sorted(set(names) - set(REHEARSALS)):
        parser.error(f"unknown part {', '.join(unknown)}: choose from {', '.join(REHEARSALS)}")

    def status() -> int:
        with tempfile.TemporaryDirectory(prefix="ironauth-runbook-") as made:
            folder = Path(made)
            folder.chmod(0o711)  # PostgreSQL's own user passes through
            install_patroni(folder)  # there is no other network afterwards
            network.enter()
            network.lay(0)
            return _run(names, folder)

    return status_of(status)


def _run(names: list[str], folder: Path) -> int:
    wrong = 0
    with ExitStack() as stack:
        say("preparing three database machines")
        rehearsal = Rehearsal(Cluster(folder, stack))
        for name in names:
            began = time.monotonic()
            REHEARSALS[name](rehearsal)
            took = time.monotonic() - began
            rehearsal.write()
            said = rehearsal.wrong
            wrong += bool(said)
            say(f"{name}: {took:.0f} s, {said or 'everything that was acknowledged is there'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
