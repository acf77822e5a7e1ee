"""Three machines with etcd, Patroni, PostgreSQL, Redis and Sentinel on each, by the files of deploy/."""

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from ironauth.tests.services import find_binary
from perf.failover.patroni import PATRONI
from perf.nodes import network
from perf.rig.processes import StartError, process_tree
from perf.rig.site_setup import ROOT

NAMES: Final = {21: "d1", 22: "d2", 23: "d3"}  # by the last byte of the address, as the files of deploy/ have them
HAPROXY_PORT: Final = 5000
START_S: Final = 90.0  # for a cluster of three, made from nothing on two cores
_USER: Final = "postgres"
_POLL_S: Final = 0.1
_KINDS: Final = ("etcd", "patroni", "redis", "sentinel")


def addresses() -> list[str]:
    """Return the machines' addresses on the link of the databases."""
    return [network.address("postgres", host) for host in NAMES]


class DatabaseMachine:
    """One of the three: what runs on it is started, killed and started again."""

    def __init__(self, machine: network.Machine, folder: Path, passwords: Mapping[str, str], stack: ExitStack) -> None:
        self.machine = machine
        self.number = machine.host - min(NAMES) + 1
        self.name = f"database-{self.number}"
        self.address = machine.address("postgres")
        self.folder = folder / machine.name
        self._passwords = passwords
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.folder.mkdir()
        shutil.chown(self.folder, _USER)
        self._write()
        stack.callback(self.kill)

    # ------------------------------------------------------------ processes
    def start(self, *kinds: str, **settings: str) -> None:
        """Start what does not run: everything, or the kinds that are named, with ``settings`` in the environment."""
        for kind in kinds or _KINDS:
            running = self._processes.get(kind)
            if running is None or running.poll() is not None:
                command, environment = self._command(kind)
                with (self.folder / f"{kind}.log").open("ab") as log:
                    self._processes[kind] = subprocess.Popen(
                        self.machine.within(
                            "setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups", *command
                        ),
                        env=environment | settings,
                        cwd=self.folder,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )

    def runs(self, kind: str) -> bool:
        """Return whether that one was started, and not killed."""
        return kind in self._processes

    def kill(self, *kinds: str) -> None:
        """Kill, as a machine that loses its power: everything, or the kinds that are named."""
        for kind in kinds or _KINDS:
            process = self._processes.pop(kind, None)
            members = process_tree(process.pid) if process is not None else []
            if kind == "patroni":  # PostgreSQL is a daemon of its own
                members += self._postgres_processes()
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if process is not None:
                process.wait()

    def stop(self, kind: str) -> None:
        """End one of them as its unit does, and PostgreSQL with Patroni."""
        process = self._processes.pop(kind)
        process.terminate()
        process.wait(timeout=60)

    def hold_back_wal(self) -> None:
        """Send nothing to replicas any more, as a network that stalls; ends with the machine."""
        for pid in self._postgres_processes():
            with suppress(OSError):
                if b"walsender" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGSTOP)

    def freeze(self) -> None:
        """Stop everything, as a virtual machine whose host moves it; connections to it stay, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on where it was stopped; nothing happens where it was not."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        members = [pid for process in self._processes.values() for pid in process_tree(process.pid)]
        for pid in {*members, *self._postgres_processes()}:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _postgres_processes(self) -> list[int]:
        try:
            pid = int((self.folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return []
        try:
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        except OSError:
            return []
        return process_tree(pid) if name == "postgres" else []

    # ------------------------------------------------------------ what it says of itself
    @property
    def role(self) -> str:
        """What Patroni here says: ``master``, ``replica``, ``sync_standby`` …, or "" while it says nothing."""
        return str(self.status().get("role", ""))

    def status(self) -> dict[str, Any]:
        """Return Patroni's account of this machine; empty while it gives none."""
        try:
            with urllib.request.urlopen(f"http://{self.address}:8008/patroni", timeout=2) as answer:
                said: dict[str, Any] = msgspec.json.decode(answer.read())
                return said
        except urllib.error.HTTPError as error:  # 503: it says what it is all the same
            with error, suppress(msgspec.DecodeError):
                told: dict[str, Any] = msgspec.json.decode(error.read())
                return told
        except OSError:
            pass
        return {}

    def replicates(self) -> bool:
        """Return whether it is a replica that streams."""
        said = self.status()
        return said.get("role") == "replica" and said.get("state") in ("running", "streaming")

    def local_sql(self, sql: str) -> subprocess.CompletedProcess[str]:
        """Run a statement by its own PostgreSQL, on the machine itself."""
        command = [find_binary("psql", "postgresql-client"), "-h", self.address, "-U", "postgres", "-d", "ironauth"]
        return subprocess.run(
            self.machine.within(*command, "-tAc", f"SET statement_timeout = 2000; {sql}"),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PGPASSWORD": self._passwords["PATRONI_SUPERUSER_PASSWORD"], "PGCONNECT_TIMEOUT": "3"},
        )

    # ------------------------------------------------------------ files of deploy/, with the laboratory's addresses
    def _write(self) -> None:
        folder = self.folder
        binaries = Path(find_binary("pg_controldata", "postgresql")).parent
        ours = [
            ("/var/lib/postgresql/ironauth", f"{folder}/data"),
            ("/usr/lib/postgresql/15/bin", str(binaries)),
            ("/var/lib/postgresql/.pgpass_patroni", f"{folder}/pgpass"),
            ("/var/run/postgresql", str(folder)),
            ("/var/lib/etcd/ironauth", f"{folder}/etcd"),
            ("/var/lib/redis", str(folder)),
            ("/opt/patroni", str(folder.parent / PATRONI)),
            ("mode: automatic", "mode: off"),  # of the watchdog: the machines share one kernel
            ("database-1\n", f"{self.name}\n"),
        ]
        for source in ("patroni/patroni.yml", "patroni/node.env", "etcd/etcd.env", "sentinel/sentinel.conf"):
            text = (ROOT / "deploy" / source).read_text(encoding="utf-8")
            own = Path(source).suffix == ".env"
            for written, here in ours:
                text = text.replace(written, here)
            if own:  # the address of this machine, but for the list of all three
                text = re.sub(
                    r"^((?!ETCD_INITIAL_CLUSTER=).*)10\.0\.0\.21",
                    rf"\g<1>10.0.0.{self.machine.host}",
                    text,
                    flags=re.MULTILINE,
                )
            text = text.replace("bind 10.0.0.21", f"bind {self.address}")
            text = text.replace("10.0.0.", network.address("postgres", 0)[:-1])
            target = folder / Path(source).name
            target.write_text(text, encoding="utf-8")
            shutil.chown(target, _USER)

    def environment(self, file: str) -> dict[str, str]:
        """Return the variables of one of its files, and the passwords."""
        lines = (self.folder / file).read_text(encoding="utf-8").splitlines()
        said = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        home = pwd.getpwnam(_USER).pw_dir
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, **said, **self._passwords}

    def _command(self, kind: str) -> tuple[list[str], dict[str, str]]:
        if kind == "etcd":
            return [find_binary("etcd", "etcd-server")], self.environment("etcd.env")
        if kind == "patroni":
            return [find_binary("patroni", "patroni"), str(self.folder / "patroni.yml")], self.environment("node.env")
        server = find_binary("redis-server", "redis-server")
        if kind == "sentinel":
            return [server, str(self.folder / "sentinel.conf"), "--sentinel"], dict(os.environ)
        command = [server, "--port", "6379", "--bind", self.address, "--protected-mode", "no", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self.folder)]
        if self.number != 1 and not (self.folder / "redis.log").exists():
            command += ["--replicaof", addresses()[0], "6379"]
        return command, dict(os.environ)


class Cluster:
    """The three machines and HAProxy before them; ``stack`` ends them.

    Raises:
        StartError: they did not become a cluster.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._synchronous = True  # as deploy/patroni/patroni.yml has it
        names = ("SUPERUSER", "REPLICATION", "REWIND")
        self._passwords = {f"PATRONI_{name}_PASSWORD": secrets.token_urlsafe(18) for name in names}
        made = [network.Machine(name, host, stack) for host, name in NAMES.items()]
        self.machines = [DatabaseMachine(machine, folder, self._passwords, stack) for machine in made]
        for machine in self.machines:
            machine.start("etcd", "redis", "sentinel")
        self.machines[0].start("patroni")
        self.wait(lambda: self.machines[0].role in ("master", "primary"), "a primary")
        for machine in self.machines[1:]:
            machine.start("patroni")
        self.settled()
        self._haproxy(folder, stack)
        done = self.machines[0].local_sql("SELECT 1")
        if "does not exist" in done.stderr:
            self._make_database()

    @property
    def password(self) -> str:
        """Of PostgreSQL's superuser."""
        return self._passwords["PATRONI_SUPERUSER_PASSWORD"]

    def url(self, route: str) -> str:
        """Return DATABASE_URL for a way to the primary: ``libpq`` or ``haproxy``."""
        hosts = {"libpq": ",".join(addresses()), "haproxy": f"{network.address('postgres')}:{HAPROXY_PORT}"}[route]
        return f"postgres://postgres:{self.password}@{hosts}/ironauth"

    @property
    def primary(self) -> DatabaseMachine:
        """The machine that takes writes.

        Raises:
            StartError: none does.
        """
        for machine in self.machines:
            if machine.role in ("master", "primary"):
                return machine
        raise StartError("the cluster has no primary")

    @property
    def replicas(self) -> list[DatabaseMachine]:
        """The others."""
        primary = self.primary
        return [machine for machine in self.machines if machine is not primary]

    def redis_master(self) -> DatabaseMachine:
        """Return the machine whose Redis the Sentinels name.

        Raises:
            StartError: none answers.
        """
        for machine in self.machines:
            command = [find_binary("redis-cli", "redis-tools"), "-h", machine.address, "-p", "26379"]
            done = subprocess.run(
                [*command, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "ironauth"],
                capture_output=True, text=True, check=False, timeout=5,
            )  # fmt: skip
            named = done.stdout.split("\n", 1)[0].strip()
            for one in self.machines:
                if one.address == named:
                    return one
        raise StartError("no Sentinel names a master")

    @contextmanager
    def replicating(self, *, synchronous: bool) -> Iterator[None]:
        """Wait for a replica at every commit, or for none, while the block runs; then as before.

        Raises:
            StartError: Patroni refused, or the cluster did not settle.
        """
        before = self._synchronous
        self._replicate(synchronous=synchronous)
        try:
            yield
        finally:
            self._replicate(synchronous=before)

    def _replicate(self, *, synchronous: bool) -> None:
        if synchronous == self._synchronous:
            return
        asked = urllib.request.Request(
            f"http://{self.primary.address}:8008/config",
            data=msgspec.json.encode({"synchronous_mode": synchronous}),
            headers={"Content-Type": "application/json"},
            method="PATCH",
        )
        try:
            with urllib.request.urlopen(asked, timeout=10):  # noqa: S310 - as above
                pass
        except OSError as error:
            raise StartError(f"Patroni refused another synchronous_mode: {error}") from error
        self._synchronous = synchronous
        self.settled()

    def settled(self) -> None:
        """Return when there is a primary, two replicas follow it, and one of them confirms commits.

        With ``replicating(synchronous=False)`` none does.
        """
        for machine in self.machines:
            machine.start()
        self.wait(self._is_settled, "a primary and two replicas")

    def _is_settled(self) -> bool:
        roles = [machine.role for machine in self.machines]
        if sum(role in ("master", "primary") for role in roles) != 1:
            return False
        primary = self.machines[[role in ("master", "primary") for role in roles].index(True)]
        if not all(machine.replicates() for machine in self.machines if machine is not primary):
            return False
        following = primary.status().get("replication") or []
        states = [(one.get("state"), one.get("sync_state")) for one in following]
        confirmed = "sync" in {sync for _, sync in states}
        return len([state for state, _ in states if state == "streaming"]) == 2 and confirmed == self._synchronous

    def switch_over(self) -> None:
        """Ask Patroni for another primary.

        Raises:
            StartError: it refused.
        """
        primary = self.primary
        asked = urllib.request.Request(
            f"http://{primary.address}:8008/switchover",
            data=msgspec.json.encode({"leader": primary.name}),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=60):  # noqa: S310 - as above
                pass
        except urllib.error.HTTPError as error:
            raise StartError(f"Patroni refused the switchover: {error.read()[:300]!r}") from error

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = START_S) -> None:
        """Return when ``condition`` holds.

        Raises:
            StartError: it did not for so many ``seconds``.
        """
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                said = {machine.name: machine.status() for machine in self.machines}
                raise StartError(f"the cluster did not come to {what} in {seconds:.0f} s: {said}")
            time.sleep(_POLL_S)

    def _make_database(self) -> None:
        command = [find_binary("psql", "postgresql-client"), "-h", self.machines[0].address, "-U", "postgres"]
        command += ["-d", "postgres"]
        network.run("env", f"PGPASSWORD={self.password}", *command, "-qc", "CREATE DATABASE ironauth")

    def _haproxy(self, folder: Path, stack: ExitStack) -> None:
        text = (ROOT / "deploy" / "haproxy" / "haproxy.cfg").read_text(encoding="utf-8")
        text = text.replace("127.0.0.1:5000", f"{network.address('postgres')}:{HAPROXY_PORT}")
        file = folder / "haproxy.cfg"
        file.write_text(text.replace("10.0.0.", network.address("postgres", 0)[:-1]), encoding="utf-8")
        program = shutil.which("haproxy", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        if program is None:
            raise StartError("haproxy is not installed: apt-get install haproxy")
        with (folder / "haproxy.log").open("ab") as log:
            process = subprocess.Popen(
                [program, "-db", "-f", str(file)], stdout=log, stderr=log, start_new_session=True
            )
        stack.callback(process.wait)
        stack.callback(process.terminate)
