"""The chain that deploy/ describes, made of its own files on private paths and ports.

nginx (TLS) -> Unix socket -> IronAuth -> PgBouncer -> Postgres, and Redis on a Unix socket.
"""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg

from ironauth import settings_test
from ironauth.tests.deploy.certificates import Authority
from ironauth.tests.deploy.files import DEPLOY, unit, with_changes
from ironauth.tests.services import PrivatePostgres, find_binary

HOST, APPLICATION, MTLS = "id.example.com", "app.example.com", "mtls.id.example.com"
START_S = 60.0
#: Does to the process what MemoryDenyWriteExecute= of the unit does, where the kernel can (6.3): prctl PR_SET_MDWE.
CONFINED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
HBA = "local all postgres trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def program(name: str, package: str) -> str:
    """Return the path of a server's program, which Debian may keep in /usr/sbin."""
    return shutil.which(name, path="/usr/sbin") or find_binary(name, package)


class Chain:
    """Starts the servers in their order; ``close`` ends them."""

    def __init__(self, folder: Path, application_port: int) -> None:
        self.folder = folder
        self.application_port = application_port
        self.https, self.http, self.pooler = (settings_test._free_port() for _ in range(3))
        self.socket, self.redis_socket = folder / "web.sock", folder / "redis.sock"
        self.secrets = folder / "secrets"
        self.authority = Authority(folder)
        config = f"config_file={DEPLOY / 'postgres' / 'postgresql.conf'}"
        self.postgres = PrivatePostgres(
            folder / "postgres", settings_test._free_port(), "-c", config, "-c", "shared_buffers=16MB"
        )
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start everything; the slow ones beside each other."""
        command = ["sh", str(DEPLOY / "make-secrets.sh"), HOST, str(self.secrets), f"127.0.0.1:{self.pooler}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self._start_redis()
        self._start_nginx()
        self.postgres.start()
        self._make_database()
        self.start_pgbouncer()
        self.start_server("--migrate")

    def close(self) -> None:
        """End everything, the first in the chain first."""
        for name in ("nginx", "server", "pgbouncer", "redis"):
            if name in self._running:
                self.stop(name)
        self.postgres.stop()

    def stop(self, name: str) -> int:
        """End a server as its unit does; its exit status."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGINT if name == "pgbouncer" else signal.SIGTERM)
        return process.wait(20)

    def log(self, name: str) -> str:
        """Return what a server has printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    # ------------------------------------------------------------ as people and programs reach it
    def trust(self, **changes: Any) -> ssl.SSLContext:
        """Return a client's TLS that trusts the test's CA alone."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        for name, value in changes.items():
            setattr(context, name, value)
        return context

    def client(self, host: str = HOST, address: str = "127.0.0.1") -> httpx.Client:
        """Return a client at ``address`` that knows nginx as ``host``."""
        transport = httpx.HTTPTransport(verify=self.trust(), local_address=address)

        def by_name(request: httpx.Request) -> None:
            request.extensions["sni_hostname"] = host

        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.https}",
            headers={"Host": host},
            transport=transport,
            timeout=15,
            event_hooks={"request": [by_name]},
        )

    def as_superuser(self, statement: str, database: str = "ironauth") -> list[tuple[Any, ...]]:
        """Return the rows of a statement run beside PgBouncer, by Postgres' superuser."""
        with psycopg.connect(
            host=str(self.postgres.folder), port=self.postgres.port, user="postgres", dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    @property
    def libpq(self) -> dict[str, str]:
        """The environment in which Postgres' own programs find it, as its superuser."""
        known = {"PGHOST": str(self.postgres.folder), "PGPORT": str(self.postgres.port), "PGUSER": "postgres"}
        return {"PATH": os.environ["PATH"], "LC_ALL": "C", **known}

    # ------------------------------------------------------------ the servers
    def _start_redis(self) -> None:
        text = (DEPLOY / "redis" / "redis.conf").read_text()
        file = self.folder / "redis.conf"
        file.write_text(with_changes(text, ("/run/redis/redis.sock", str(self.redis_socket))))
        self._run("redis", [program("redis-server", "redis-server"), str(file)], self.redis_socket)

    def _make_database(self) -> None:
        (self.postgres.folder / "data" / "pg_hba.conf").write_text(HBA)
        self.as_superuser("SELECT pg_reload_conf()", "postgres")
        self.as_superuser("DROP DATABASE ironauth", "postgres")  # that of the suite's own servers
        file = {"IRONAUTH_DATABASE_PASSWORD_FILE": str(self.secrets / "database-password")}
        subprocess.run([DEPLOY / "postgres" / "create-ironauth.sh"], env={**self.libpq, **file}, check=True)

    def start_pgbouncer(self) -> None:
        """Start PgBouncer and return when it listens."""
        folder = self.folder / "pgbouncer"
        folder.mkdir(exist_ok=True)
        place = (DEPLOY / "pgbouncer" / "place-host.ini").read_text()
        changes = (
            ("port=5432", f"port={self.postgres.port}"), ("= 6432", f"= {self.pooler}"),
            ("/var/log/postgresql/", f"{folder}/"), ("/var/run/postgresql/", f"{folder}/"),
        )  # fmt: skip
        (folder / "place.ini").write_text(with_changes(place, *changes))
        main = (DEPLOY / "pgbouncer" / "pgbouncer.ini").read_text()
        (folder / "pgbouncer.ini").write_text(with_changes(main, ("/etc/pgbouncer/", f"{folder}/")))
        shutil.copy(self.secrets / "userlist.txt", folder)
        as_user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
        if as_user:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, as_user)
        command = [program("pgbouncer", "pgbouncer"), str(folder / "pgbouncer.ini")]
        self._run("pgbouncer", command, self.pooler, user=as_user)

    def start_server(self, *more: str) -> None:
        """Start the product by the unit's command, and ``more``; return when it answers."""
        settings_file = self.secrets / "env"
        text = settings_file.read_text()
        if "/run/redis/redis.sock" in text:
            cheap = f"IRONAUTH_ARGON2_TIME_COST=2\nIRONAUTH_ARGON2_MEMORY_KIB=19456\nEMAIL_URL=filemail://{self.folder}/mail\n"
            settings_file.write_text(with_changes(text, ("/run/redis/redis.sock", str(self.redis_socket))) + cheap)
        (command,) = [value for name, value in unit("ironauth.service") if name == "ExecStart"]
        interpreter, *arguments = command.split()
        assert interpreter == "/opt/ironauth/.venv/bin/python"
        arguments = [str(self.socket) if each == "/run/ironauth/web.sock" else each for each in arguments]
        inherited = {name: value for name, value in os.environ.items() if name not in settings_test.ENVIRONMENT}
        env = {
            **inherited, "IRONAUTH_ENV_FILE": str(settings_file), "DJANGO_SETTINGS_MODULE": "ironauth.settings",
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        }  # fmt: skip
        confined = [sys.executable, "-c", CONFINED, sys.executable, *arguments, *more]
        self._run("server", confined, self.socket, env=env, cwd=DEPLOY.parent)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self.socket))) as client:
            answer = client.get("http://localhost/health", headers={"Host": HOST}, timeout=START_S)
        assert answer.status_code == 200, answer.text + self.log("server")

    def _start_nginx(self) -> None:
        self.authority.certify(HOST, self.folder / "tls")
        self.authority.certify(APPLICATION, self.folder / "tls" / "app")
        self.authority.certify(MTLS, self.folder / "tls" / "mtls")
        folder, trusted = self.folder / "nginx", self.authority.file
        folder.mkdir()
        here = (
            (" /tmp/", f" {self.folder}/"),
            ("# ssl_client_certificate /etc/ironauth/tls/mtls/authorities.pem", f"ssl_client_certificate {trusted}"),
            ("/etc/nginx/ironauth/", f"{folder}/"), ("/etc/ironauth/tls/", f"{self.folder}/tls/"),
            ("/run/ironauth/web.sock", str(self.socket)), ("/var/log/nginx/", f"{self.folder}/"),
            ("/var/www/acme", f"{self.folder}/acme"),
            ("listen 443 ", f"listen 127.0.0.1:{self.https} "), ("listen 80", f"listen 127.0.0.1:{self.http}"),
            ("127.0.0.1:3000", f"127.0.0.1:{self.application_port}"), ("# include ", "include "),
        )  # fmt: skip
        ours = dict(here)
        any_of_them = re.compile("|".join(map(re.escape, ours)))  # in one pass: a port put in may begin as another one
        used: set[str] = set()
        for file in (DEPLOY / "nginx").iterdir():
            lines = file.read_text().splitlines(keepends=True)
            text = "".join(line for line in lines if "listen [::]:" not in line)  # the machine may have no IPv6
            used.update(any_of_them.findall(text))
            (folder / file.name).write_text(any_of_them.sub(lambda found: ours[found[0]], text))
        assert used == ours.keys()
        command = [program("nginx", "nginx-light"), "-p", str(self.folder), "-e", "stderr"]
        options = "daemon off; user root;" if os.geteuid() == 0 else "daemon off;"  # its workers read this folder
        self._run("nginx", [*command, "-c", str(folder / "nginx.conf"), "-g", options], self.https)

    def _run(self, name: str, command: list[str], listens: Path | int, **how: Any) -> None:
        """Start a server and return when it accepts connections at a path or a port."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = self._running[name] = subprocess.Popen(command, stdout=log, stderr=log, **how)
        family = socket.AF_UNIX if isinstance(listens, Path) else socket.AF_INET
        address = str(listens) if isinstance(listens, Path) else ("127.0.0.1", listens)
        deadline = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline:
            with socket.socket(family) as probe:
                if probe.connect_ex(address) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError(f"{name} does not listen: {self.log(name)[-3000:]}")
