"""``manage.py serve``: the one way Uvicorn is started, by make, Docker and systemd alike."""

import errno
import io
import logging
import os
import re
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import DatabaseError, OperationalError

from accounts.outbox import checks as mail_checks
from ironauth.config.checks import usable_cpus
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.server import server

UMASK = 0o077  # the SQLite files and everything else made in var/ are for this user only
ADDRESSES = {
    "API": "/api/v1/access/… (POST signup, signin; see the docs)",
    "Docs": "/api/docs",
    "Admin": "/admin/",
    "Health": "/health",
}
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1"})  # what is bound to one is reached by the other
ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
INTERRUPTED = 130  # what a shell reports for a command ended by SIGINT
MOST_WORKERS_PER_CPU = 4  # beyond, workers only wait for each other, and take memory and connections
SURELY_WORKERS = 8  # may be asked for on any machine, to try things out
SLOW_CALLBACK_MS = 100.0  # asyncio's own default
SHORTEST_CALLBACK_MS, LONGEST_CALLBACK_MS = 1.0, 60_000.0  # below, uvloop's timers cannot tell; above, nothing is left


class Command(BaseCommand):
    """Serve the API, the admin and the documentation until SIGTERM or Ctrl-C."""

    help = "Serve IronAuth with Uvicorn."
    # A worker imports and so checks everything it serves; `make check` runs Django's checks, start-ups stay quick.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options; the defaults suit a development machine."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        parser.add_argument(
            "--port",
            type=int,
            default=settings.IRONAUTH_SERVE_PORT,
            help="TCP port (default: %(default)s; 0: any free one); with DEBUG the issuer has it too",
        )
        parser.add_argument("--uds", type=Path, help="listen on this Unix socket (mode 0660) instead of TCP")
        parser.add_argument(
            "--workers",
            help=f"processes, 1 to {_most_workers()} here (default: 1 with DEBUG or SQLite, whose writers exclude each "
            "other; else usable CPUs)",
        )
        parser.add_argument(
            "--worker-sockets",
            type=Path,
            metavar="DIR",
            help="let each worker listen on a Unix socket of its own as well, DIR/worker-0.sock and so on (mode 0660), "
            "for a proxy that sends a token to the same worker",
        )
        parser.add_argument(
            "--migrate", action="store_true", help="first bring the database up to date and make a signing key"
        )
        parser.add_argument(
            "--refuse-until-ready",
            action="store_true",
            help="refuse connections until a worker answers, instead of letting them wait: for one of several nodes, "
            "so that the proxy asks another",
        )
        parser.add_argument(
            "--loop-debug",
            action="store_true",
            help="log what keeps the event loop (slow_callback) and how late it is (loop_lag, every 5 s and at the "
            "end); makes requests dearer: for finding a fault, not for production",
        )
        parser.add_argument(
            "--slow-callback-ms",
            type=float,
            help=f"with --loop-debug: report callbacks that take longer (default: {SLOW_CALLBACK_MS:g} ms)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Bind, prepare, serve. Every refusal is one line with its remedy and exit status 1; a clean end is 0."""
        os.umask(UMASK)
        host: str = options["host"]
        port: int = options["port"]
        path: Path | None = options["uds"]
        workers = _workers(options["workers"])
        slow_callback_ms = _slow_callback_ms(loop_debug=options["loop_debug"], given=options["slow_callback_ms"])
        _refuse_public_debug(host, path or options["worker_sockets"])
        try:
            # Bound first: a taken port is found before the database is touched.
            bound = server.bind_unix(path) if path else server.bind_tcp(host, port)
            try:
                if options["migrate"]:
                    self._prepare()
                else:
                    _require_migrated()
                _divide_hash_threads(workers)
                base = f"unix:{path}" if path else _to_open(host, bound.getsockname()[1])
                server.serve(
                    bound=bound,
                    workers=workers,
                    on_ready=lambda: self._announce(base, workers),
                    slow_callback_ms=slow_callback_ms,
                    refuse_until_ready=options["refuse_until_ready"],
                    sockets_folder=options["worker_sockets"],
                )
            finally:
                bound.close()
                if path:
                    path.unlink(missing_ok=True)
        except server.ServerError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def _prepare(self) -> None:
        """Apply missing migrations and make the first signing key; say so only when something was done.

        In this process and before Uvicorn: a Python start-up for each would take a second of every `make run`.
        """
        _require_writable_folder()
        try:
            connection = connections[DEFAULT_DB_ALIAS]
            executor = MigrationExecutor(connection)
            if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
                self.stdout.write(f"Database: applying {len(plan)} migrations to {_database()}")
                call_command("migrate", verbosity=0, interactive=False)
            said = io.StringIO()
            call_command("create_signing_key", stdout=said)
            if plan:
                self.stdout.write(f"Signing key: {said.getvalue().strip()}")
        except (OperationalError, DatabaseError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise CommandError(
                f"The database {_database()} cannot be prepared ({reason}): check DATABASE_URL, that its server runs, "
                "and that this user may write there"
            ) from error
        finally:
            connections.close_all()

    def _announce(self, base: str, workers: int) -> None:
        """Print where everything is; called when requests are really answered."""
        many = f"{workers} workers" if workers > 1 else "1 worker"
        self.stdout.write(f"IronAuth is serving ({many}, {_database()}). Stop it with Ctrl-C.")
        for name, path in ADDRESSES.items():
            self.stdout.write(f"  {name:<7} {base}{path}")
        if settings.DEBUG and base != settings.IRONAUTH_ISSUER:
            self.stdout.write(
                f"  Issuer  {settings.IRONAUTH_ISSUER} (IRONAUTH_ISSUER): tokens and links are for that address"
            )
        if settings.IRONAUTH_METRICS:
            self.stdout.write(f"  Metrics {base}/metrics (Authorization: Bearer with IRONAUTH_METRICS_TOKEN)")
        if settings.IRONAUTH_PERF_ENDPOINTS:
            self.stdout.write(f"  Perf    {base}/perf/serialization/msgspec (and drf, drf-msgspec, msgspec-converted)")
            if not settings.DEBUG:
                get_logger().warning(
                    "perf_endpoints_on", remedy="unset IRONAUTH_PERF_ENDPOINTS unless you measure here"
                )
        if not settings.DEBUG:
            mail_checks.warn_of_no_mail()
            self.stdout.write(f"  It answers to the Host {', '.join(settings.ALLOWED_HOSTS)} only (ALLOWED_HOSTS).")
        self.stdout.flush()


def _most_workers() -> int:
    """Return how many worker processes may be asked for on this machine."""
    return max(MOST_WORKERS_PER_CPU * usable_cpus(), SURELY_WORKERS)


def _workers(given: str | int | None) -> int:
    """Return the number of worker processes asked for, or the default that the command's help states.

    Raises ``CommandError`` for anything but a whole number that this machine can bear.
    """
    if given is not None:
        text, most = str(given), _most_workers()
        if re.fullmatch("[0-9]{1,6}", text) and 1 <= int(text) <= most:
            return int(text)
        raise CommandError(
            f"--workers must be a whole number from 1 to {most} ({MOST_WORKERS_PER_CPU} for each usable CPU, at least "
            f"{SURELY_WORKERS}; each worker takes about 110 MiB, 64 MiB more for each hash thread, and its own pools "
            "of database connections): choose one of these, or leave it out for the default"
        )
    if settings.DEBUG or connections[DEFAULT_DB_ALIAS].vendor == "sqlite":
        return 1
    return usable_cpus()


def _slow_callback_ms(*, loop_debug: bool, given: float | None) -> float | None:
    """Return the threshold of ``--loop-debug`` in milliseconds, None without it."""
    if given is not None and not loop_debug:
        raise CommandError("--slow-callback-ms means nothing by itself: add --loop-debug")
    if not loop_debug:
        return None
    if logging.getLevelNamesMapping()[settings.IRONAUTH_LOG_LEVEL] > logging.INFO:
        raise CommandError("--loop-debug reports at level INFO: set IRONAUTH_LOG_LEVEL=INFO, or leave it out")
    threshold = SLOW_CALLBACK_MS if given is None else given
    if not SHORTEST_CALLBACK_MS <= threshold <= LONGEST_CALLBACK_MS:
        raise CommandError(
            f"--slow-callback-ms must be from {SHORTEST_CALLBACK_MS:g} to {LONGEST_CALLBACK_MS:g} milliseconds: "
            f"leave it out for {SLOW_CALLBACK_MS:g}"
        )
    return threshold


def _divide_hash_threads(workers: int) -> None:
    """Give every worker its share of ``IRONAUTH_HASH_THREADS``, which is the machine's total; at least one each."""
    if workers > 1:
        os.environ["IRONAUTH_HASH_THREADS"] = str(max(1, settings.IRONAUTH_HASH_THREADS // workers))


def _refuse_public_debug(host: str, uds: Path | None) -> None:
    """Raise ``CommandError`` when DEBUG's relaxations would face more than this machine (ASVS 13.4.2).

    A Unix socket is there for a proxy, which other machines reach.
    """
    if settings.DEBUG and uds is not None:
        raise CommandError(
            "DEBUG=1 must not be served on a Unix socket, behind which a proxy brings in other machines: "
            "set DEBUG=0 and the variables of deploy/env.example, or leave --uds and --worker-sockets out"
        )
    if settings.DEBUG and not server.is_loopback(host):
        raise CommandError(
            f"DEBUG=1 must not be reachable from other machines ({host}): "
            "set DEBUG=0 and the variables of deploy/env.example, or use --host 127.0.0.1"
        )


def _require_migrated() -> None:
    """Raise ``CommandError`` when the database lacks tables or columns of this code: every answer would be a 500.

    One that is newer is none of our business (the release before serves on it), and one out of reach is reported by
    the health page once the server runs.
    """
    try:
        executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return
    finally:
        connections.close_all()
    if missing:
        raise CommandError(
            f"The database {_database()} lacks {len(missing)} migrations of this release: run manage.py migrate first, "
            "or start with --migrate"
        )


def _require_writable_folder() -> None:
    """Make the SQLite file's folder (mode 0700); raise ``CommandError`` when it or the file cannot be written."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor != "sqlite":
        return
    file = Path(str(connection.settings_dict["NAME"]))
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite makes its file, -wal and -shm with the mode of the first; made here, whatever umask made the folder.
        file.touch(mode=0o600)
        if not os.access(file, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise CommandError(
            f"Cannot write {file} ({error.strerror}): make it and {file.parent}/ writable for this user, "
            "or set DATABASE_URL to a place that is"
        ) from error


def _database() -> str:
    """Return what is safe to show of the database's address: never its user or password."""
    options = connections[DEFAULT_DB_ALIAS].settings_dict
    if connections[DEFAULT_DB_ALIAS].vendor == "sqlite":
        return f"SQLite {options['NAME']}"
    return f"{connections[DEFAULT_DB_ALIAS].display_name} {options['HOST'] or 'local socket'}/{options['NAME']}"


def _to_open(host: str, port: int) -> str:
    """Return the origin a person should open: the issuer's when it names this very server, else the one bound.

    Cookies and passkeys are kept for one name: a sign-in at 127.0.0.1 does not count at localhost.
    """
    issuer = urlsplit(settings.IRONAUTH_ISSUER)
    name = issuer.hostname or ""
    here = host == name or host in ANY_ADDRESS or {host, name} <= LOCAL_NAMES
    if issuer.scheme == "http" and (issuer.port or 80) == port and server.is_loopback(name) and here:
        return str(settings.IRONAUTH_ISSUER)
    return _url(host, port)


def _url(host: str, port: int) -> str:
    """Return the address a person can open; an IPv6 host gets its brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
