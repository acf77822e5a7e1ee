"""``manage.py hashworker``: do the hashes of nodes, on a machine that knows no password, no key and no account."""

import asyncio
import os
import re
import signal
import socket
import ssl
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from ironauth.config.hash_workers import can_tell_users
from ironauth.config.table import LIMITS
from ironauth.infrastructure.hashing import argon2_build, argon2_log
from ironauth.infrastructure.hashing.argon2 import Argon2Wrong
from ironauth.infrastructure.hashing.local_pool import HashPool
from ironauth.infrastructure.hashing.remote import trust as hash_worker_trust
from ironauth.infrastructure.hashing.remote.server import HashWorkerServer
from ironauth.infrastructure.telemetry import logs
from ironauth.server import server

UMASK = 0o077
PORT = 8443


class Command(BaseCommand):
    """Answer the nodes whose IRONAUTH_HASH_WORKERS names this worker, until SIGTERM or Ctrl-C."""

    help = "Hash for other nodes: Argon2id runs here, on what is no password any more."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--uds", type=Path, help="listen on this Unix socket, for processes of the same user")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        parser.add_argument("--port", type=int, default=PORT, help=f"TCP port (default: {PORT}; 0: any free one)")
        parser.add_argument("--cert", type=Path, help="PEM certificate of this worker, for the host that nodes name")
        parser.add_argument("--key", type=Path, help="its key")
        parser.add_argument("--ca", type=Path, help="the CA that signed the nodes' certificates, and nothing else")
        parser.add_argument(
            "--threads",
            default=str(settings.IRONAUTH_HASH_THREADS),
            help=f"hashes at once (default: IRONAUTH_HASH_THREADS, here {settings.IRONAUTH_HASH_THREADS})",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Bind and serve. Every refusal is one line with its remedy and exit status 1; a clean end is 0."""
        os.umask(UMASK)
        path: Path | None = options["uds"]
        threads = _threads(options["threads"])
        tls = _tls(path, options)
        pool = HashPool(threads, settings.IRONAUTH_HASH_MAX_WAIT_S, settings.IRONAUTH_HASH_NICE)
        try:
            bound = server.bind_unix(path) if path else server.bind_tcp(options["host"], options["port"])
        except server.ServerError as error:
            raise CommandError(str(error)) from error
        where = f"unix:{path}" if path else f"tls://{_name(bound)}"
        try:
            argon2_log.choose()
            what = f"{where}, {threads} hashes at once, Argon2: {argon2_build.build()}"
            asyncio.run(self._serve(HashWorkerServer(pool), bound, tls, what))
        except Argon2Wrong as error:
            raise CommandError(str(error)) from error
        finally:
            bound.close()
            pool.shutdown()
            if path:
                path.unlink(missing_ok=True)
            logs.flush()

    async def _serve(
        self, worker: HashWorkerServer, bound: socket.socket, tls: ssl.SSLContext | None, what: str
    ) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)

        def announce() -> None:
            self.stdout.write(f"The hash worker is ready: {what}. Stop it with Ctrl-C.")
            self.stdout.flush()

        await worker.serve(bound, tls=tls, stop=stop, on_ready=announce)


def _threads(given: str) -> int:
    most = int(LIMITS["IRONAUTH_HASH_THREADS"].most)
    if re.fullmatch("[0-9]{1,4}", str(given)) and 1 <= int(given) <= most:
        return int(given)
    raise CommandError(f"--threads must be a whole number from 1 to {most}: leave it out for IRONAUTH_HASH_THREADS")


def _tls(path: Path | None, options: dict[str, Any]) -> ssl.SSLContext | None:
    """Return how a TCP port is protected, or None for a Unix socket, whose peers the kernel names."""
    cert, key, ca = (options[name] for name in ("cert", "key", "ca"))
    if path is not None:
        if cert or key or ca:
            raise CommandError("--uds needs no TLS: leave --cert, --key and --ca out, or --uds")
        if not can_tell_users():
            raise CommandError(
                "--uds needs Linux, whose kernel says which user asks: use --host, --cert, --key and --ca"
            )
        return None
    if not (cert and key and ca):
        raise CommandError("--cert, --key and --ca are needed at a TCP port: name all three, or --uds for this machine")
    try:
        return hash_worker_trust.context(server=True, cert=cert, key=key, ca=ca)
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error


def _name(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
