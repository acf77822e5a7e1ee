"""The site that is broken: Postgres and Redis behind proxies, or a database on a small volume, and two workers."""

import asyncio
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from enum import Enum
from pathlib import Path
from uuid import UUID

import psycopg

from ironauth.config.checks import default_hash_threads
from ironauth.tests.services import PrivatePostgres, PrivateRedis
from perf.faults.proxy import TcpProxy
from perf.faults.standby import Standby
from perf.faults.wire import Connector
from perf.rig import seed
from perf.rig.processes import Server, free_port, process_tree
from perf.rig.site_setup import ROOT, installed, prepare, prepare_site, serve, site_environment

PEOPLE = 600  # each with a session in the database: a sign-in takes a hash, these only rows
VOLUME_MIB = 64  # of the small volume; a site's tables, indexes and journal take a quarter of it
ON_VOLUME = "on_volume"  # tablespace and database there


class Kind(Enum):
    """What a fault needs."""

    WORKERS = "serve --workers 2, Postgres, Redis"
    CLOCKS = "two servers with a clock each, Postgres, Redis"
    SQLITE_VOLUME = "serve --workers 2, SQLite on a small volume"
    REPLICA = "serve --workers 2, Postgres with a replica for lists, Redis"
    POSTGRES_VOLUME = "serve --workers 2, Postgres with its tables on a small volume, Redis"


class NotRun(Exception):
    """This machine or user does not allow the fault; the message says what is missing."""


async def to_its_end[**P, T](call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``call`` on a thread; who is cancelled meanwhile still waits for it.

    What it starts is handed to a stack that ends it: unwound before, the stack would not know of it.
    """
    running = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class Site:
    """Everything started for one kind of fault; ``stack`` ends it, and ``close`` the proxies."""

    def __init__(self, kind: Kind, folder: Path, stack: ExitStack) -> None:
        self.kind = kind
        self.folder = folder
        self.servers: list[Server] = []
        self.clock = folder / "clock"
        self.volume = folder / "volume"
        self.sessions: list[seed.SeededSession] = []
        self.port = free_port()
        self.environment = site_environment(folder, port=self.port, hash_threads=default_hash_threads())
        self._stack = stack
        self.postgres = PrivatePostgres(folder / "postgres", free_port())
        self.redis = PrivateRedis(folder / "redis", free_port())
        self.to_postgres = TcpProxy(self.postgres.port)
        self.to_redis = TcpProxy(self.redis.port)
        self.replica = Standby(folder / "replica", free_port())
        self.to_replica = TcpProxy(self.replica.port)
        self.staff_token = ""  # the refresh token of who lists people
        self.to_server = TcpProxy(self.port)

    async def open(self) -> None:
        """Start it all and fill the database.

        Raises:
            StartError: something is not installed or did not start.
            NotRun: the small volume needs rights this user does not have.
        """
        await self.to_server.start()
        if self.kind in (Kind.SQLITE_VOLUME, Kind.POSTGRES_VOLUME):
            self._mount()
        if self.kind is Kind.SQLITE_VOLUME:
            self.environment["DATABASE_URL"] = f"sqlite:///{self._sqlite}"
        else:
            with installed():
                await self._start_services()
        await to_its_end(self._fill)
        if self.kind is Kind.REPLICA:
            await self._follow()
        await to_its_end(self._serve)

    async def close(self) -> None:
        """Close the proxies."""
        for proxy in (self.to_server, self.to_postgres, self.to_redis, self.to_replica):
            await proxy.close()

    def connector(self) -> Connector:
        """Return what opens connections to its workers."""
        return Connector([server.port for server in self.servers], self.pids)

    def pids(self) -> list[int]:
        """Return the processes of all servers."""
        return [pid for server in self.servers for pid in process_tree(server.pid)]

    def manage(self, *arguments: str) -> str:
        """Run a command of ``manage.py`` on this site; return what it printed.

        Raises:
            StartError: it failed.
        """
        return prepare(["manage.py", *arguments], self.environment)

    def generations(self, session_ids: Sequence[str]) -> dict[str, int]:
        """Return the generation of each session that is not revoked, from the database itself."""
        columns, ids = "SELECT id, generation FROM tokens_session WHERE revoked_at IS NULL", [*map(UUID, session_ids)]
        if self.kind is Kind.SQLITE_VOLUME:
            with closing(sqlite3.connect(self._sqlite)) as connection:
                rows = connection.execute(columns).fetchall()
        else:
            with psycopg.connect(self.database_url) as direct:
                rows = direct.execute(columns).fetchall()
        found = {UUID(str(key)): generation for key, generation in rows}
        return {str(one): found[one] for one in ids if one in found}

    @property
    def database_url(self) -> str:
        """Where Postgres itself listens."""
        name = ON_VOLUME if self.kind is Kind.POSTGRES_VOLUME else "ironauth"
        return f"postgres://postgres@127.0.0.1:{self.postgres.port}/{name}"

    @property
    def _sqlite(self) -> Path:
        return self.volume / "ironauth.sqlite3"

    async def _start_services(self) -> None:
        await to_its_end(self._stack.enter_context, self.postgres)
        await to_its_end(self._stack.enter_context, self.redis)
        await self.to_postgres.start()
        await self.to_redis.start()
        if self.kind is Kind.POSTGRES_VOLUME:
            self._use_volume()
        url = self.database_url.replace(f":{self.postgres.port}/", f":{self.to_postgres.port}/")
        self.environment |= {"DATABASE_URL": url, "REDIS_URL": f"redis://127.0.0.1:{self.to_redis.port}/0"}

    async def _follow(self) -> None:
        """Have a replica follow, and a member of staff who may list people."""
        staff = self.sessions.pop(PEOPLE // 2)
        self.staff_token = staff.refresh_token
        with psycopg.connect(self.database_url, autocommit=True) as direct:
            direct.execute(
                "UPDATE accounts_user SET is_staff = true, is_superuser = true WHERE id = %s", [UUID(staff.user_id)]
            )
        await to_its_end(self.replica.copy, self.postgres.port)
        await to_its_end(self._stack.enter_context, self.replica)
        await self.to_replica.start()
        url = self.database_url.replace(f":{self.postgres.port}/", f":{self.to_replica.port}/")
        self.environment["IRONAUTH_REPLICA_URL"] = url

    def _use_volume(self) -> None:
        """Make a database whose tables are on the small volume; the journal stays where there is room."""
        place = self.volume / "tables"
        place.mkdir()
        if os.geteuid() == 0:
            shutil.chown(place, pwd.getpwuid((self.folder / "postgres" / "data").stat().st_uid).pw_name)
        with psycopg.connect(self.postgres.url, autocommit=True) as direct:
            direct.execute(f"CREATE TABLESPACE {ON_VOLUME} LOCATION '{place}'".encode())
            direct.execute(f"CREATE DATABASE {ON_VOLUME} TABLESPACE {ON_VOLUME}".encode())

    def _mount(self) -> None:
        self.volume.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_MIB}m,mode=0711", "tmpfs", str(self.volume)]
        try:
            done = subprocess.run(mount, check=False, capture_output=True, text=True)
        except OSError as error:
            raise NotRun(f"a small volume needs the program mount ({error.strerror})") from error
        if done.returncode:
            raise NotRun(f"a small volume needs the right to mount a tmpfs ({done.stderr.strip()})")
        # Lazily: a process that is still ending must not keep it mounted.
        self._stack.callback(subprocess.run, ["umount", "--lazy", str(self.volume)], check=False)

    def _fill(self) -> None:
        self.sessions = prepare_site(self.environment, people=PEOPLE, sessions=True)
        if self.kind is not Kind.SQLITE_VOLUME:
            # As rollbacks and the purge do: a feed that starts cannot know that this number will never be used.
            with psycopg.connect(self.database_url, autocommit=True) as direct:
                direct.execute("SELECT nextval(pg_get_serial_sequence('infrastructure_invalidation', 'id'))")

    def _serve(self) -> None:
        if self.kind is not Kind.CLOCKS:
            log = self.folder / "ironauth.log"
            self.servers = [serve(log, self.port, self.environment, self._stack, workers=2)]
            return
        self.clock.write_text("0", encoding="ascii")
        true = self.folder / "true-clock"
        true.write_text("0", encoding="ascii")
        for port, clock in ((self.port, true), (free_port(), self.clock)):
            command = [sys.executable, "-m", "perf.faults.clocked", str(clock), "serve"]
            command += ["--workers", "1", "--port", str(port)]
            log = self.folder / f"ironauth-{clock.name}.log"
            server = Server(command, folder=ROOT, port=port, environment=self.environment, log=log)
            self.servers.append(self._stack.enter_context(server))

    def signal_server(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor."""
        os.kill(self.servers[0].pid, number)
