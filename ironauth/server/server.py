"""Uvicorn as IronAuth runs it: one configuration, sockets bound before anything is started, workers watched over.

``manage.py serve`` is the only caller. Every refusal is a ``ServerError`` whose one line ends with the remedy.
"""

import errno
import ipaddress
import logging
import math
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from django.conf import settings
from uvicorn.config import STARTUP_FAILURE

from ironauth.infrastructure.telemetry import metrics
from ironauth.server import worker_sockets
from ironauth.server.graceful import DRAIN_S
from ironauth.server.supervisor import ReadyServer, Supervisor

APPLICATION = "ironauth.asgi:application"
HIGHEST_PORT = 65_535  # 16 bits (RFC 9293 §3.1)
BACKLOG = 2_048  # connections waiting in the kernel; a burst of sign-ins arrives faster than one loop accepts
KEEP_ALIVE_S = 65  # longer than the 60 s of nginx' upstream keepalive_timeout, so that the proxy closes first
GRACEFUL_S = 8  # what runs at SIGTERM has this long: the longest wait by default (hash queue, 4 s) and as much again
MAX_REQUESTS = 10_000  # running at once, above any load one loop answers in time; the rest get 503 with Retry-After
RESERVED_FILES = 256  # file descriptors left: 128 for connections in excess, the rest for database, Redis and logs
WORKER_HEALTH_S = 30  # a starting worker shares its CPU with the others; Uvicorn's 5 s kills it while importing
#: What the kernel takes of an answer before its client takes any. On its own it would take 4 MiB for each client that
#: reads nothing, and nobody here would know that such a client does not (tcp(7); http_timing ends those it knows of).
UNSENT_BYTES = 128 * 1024
logger = logging.getLogger(__name__)


class ServerError(Exception):
    """The server cannot start; the message is one line and ends with the remedy."""


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is a name or address that only this machine reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind_tcp(host: str, port: int) -> socket.socket:
    """Return a bound TCP socket that does not listen yet.

    Args:
        host: a name, an IPv4 or an IPv6 address of this machine.
        port: 0 for any free one.

    Raises:
        ServerError: the port does not exist, is taken or privileged, or the host is not this machine's.
    """
    if not 0 <= port <= HIGHEST_PORT:  # getaddrinfo would take it modulo 65,536
        raise ServerError(f"There is no port {port}: choose --port 0 (any free one) to {HIGHEST_PORT}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise ServerError(f"{host} is not an address of this machine: choose another --host") from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # Linux, macOS; accepted connections inherit it
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ServerError(_bind_failure(host, port, error)) from error
    bound.set_inheritable(True)
    return bound


def bind_unix(path: Path) -> socket.socket:
    """Return a socket bound to ``path`` with mode 0660, replacing one that nobody listens on any more.

    Raises:
        ServerError: another server listens there, something other than a socket is in the way, or the folder cannot be
            written.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        bound.bind(str(path))
        path.chmod(worker_sockets.MODE)
    except OSError as error:
        bound.close()
        raise ServerError(
            f"Cannot create the socket {path} ({error.strerror or error}): "
            "choose another --uds path in a folder this user can write"
        ) from error
    except ServerError:
        bound.close()
        raise
    bound.set_inheritable(True)
    return bound


def listen(bound: socket.socket) -> None:
    """Let the kernel accept connections: they wait in the backlog until the workers are ready.

    Raises:
        ServerError: another server began to listen on the same port since it was bound.
    """
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        name = bound.getsockname()
        raise ServerError(
            _bind_failure(name[0], name[1], error) if isinstance(name, tuple) else f"{name}: {error}"
        ) from error


def configuration(
    *,
    workers: int,
    slow_callback_ms: float | None = None,
    metrics_folder: Path | None = None,
    sockets_folder: Path | None = None,
) -> uvicorn.Config:
    """Return Uvicorn's configuration; see the constants above for every number's reason.

    Args:
        workers: processes that serve.
        slow_callback_ms: report what keeps a worker's event loop longer, and its lag
            (``server.instrumentation.loop_debug``).
        metrics_folder: where the workers keep their figures together (``infrastructure.telemetry.metrics``).
        sockets_folder: where each worker has a socket of its own (``worker_sockets``).
    """
    config = _Configuration(
        APPLICATION,
        interface="asgi3",
        loop="uvloop",
        http="ironauth.server.connection:BoundedHttpProtocol",
        ws="none",
        lifespan="on",
        workers=workers,
        # Our structlog pipe takes the records of "uvicorn.error"; our middleware writes the access log.
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # X-Forwarded-For is read by infrastructure.http.client_address, from IRONAUTH_TRUSTED_PROXIES only: Uvicorn's
        # own reading would overwrite the peer's address before we can judge it.
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=request_limit(),
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_S - math.ceil(DRAIN_S),
        timeout_worker_healthcheck=WORKER_HEALTH_S,
    )
    config.slow_callback_ms = slow_callback_ms
    config.metrics_folder = metrics_folder
    config.worker_sockets = sockets_folder
    return config


def request_limit() -> int:
    """Raise this process's limit of open files as far as it may go; return how many running requests fit into it.

    Each has a connection; those that wait for a request are closed when they are needed (``connection``).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_REQUESTS + RESERVED_FILES
    highest = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        soft = highest
    return MAX_REQUESTS if soft == resource.RLIM_INFINITY else max(min(MAX_REQUESTS, soft - RESERVED_FILES), 1)


def serve(
    *,
    bound: socket.socket,
    workers: int,
    on_ready: Callable[[], None],
    slow_callback_ms: float | None = None,
    refuse_until_ready: bool = False,
    sockets_folder: Path | None = None,
) -> None:
    """Serve on ``bound`` until SIGTERM or SIGINT, let running requests finish (10 s), and return.

    Args:
        bound: the socket; it is closed at the end.
        workers: processes that serve; one serves in this process.
        on_ready: called once, when every worker has completed its lifespan start-up.
        slow_callback_ms: see ``configuration``.
        refuse_until_ready: refuse a client that connects before the first worker is ready, instead of letting it wait.
        sockets_folder: see ``configuration``; what is left in it at the end is removed.

    Raises:
        ServerError: the start-up failed; its cause has been logged.
    """
    if not refuse_until_ready:  # else the workers listen, each when it is ready
        listen(bound)
    with _metrics_folder(workers) as folder:
        config = configuration(
            workers=workers,
            slow_callback_ms=slow_callback_ms,
            metrics_folder=folder,
            sockets_folder=None if sockets_folder is None else _free_of_others(sockets_folder),
        )
        try:
            _run(config, bound, on_ready)
        finally:
            for path in () if sockets_folder is None else worker_sockets.of_folder(sockets_folder):
                path.unlink(missing_ok=True)


def _run(config: uvicorn.Config, bound: socket.socket, on_ready: Callable[[], None]) -> None:
    """Run one worker here, or several under a supervisor, until told to stop."""
    # Once it has drained, Uvicorn raises the signal that stopped it again. It is answered here, so that the exit is
    # clean (status 0, buffered logs written) instead of a death by signal. A signal that comes before Uvicorn listens
    # is noted, and obeyed as soon as it does. So is SIGHUP for a single worker, which would end in mid-request: no
    # other worker stands in for it, and whatever watches over it starts it again. A supervisor has its own handler.
    noted: list[int] = []
    single = ReadyServer(config, on_ready, noted) if config.workers == 1 else None

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        if single is not None:
            single.look()

    # Under nohup(1) a terminal may close: a single worker goes on ignoring SIGHUP, several are renewed.
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, *hangup)}
    try:
        if single is not None:
            single.run([bound])
        else:
            supervisor = Supervisor(config, [bound], on_ready)
            if noted:
                supervisor.should_exit.set()
            supervisor.run()
            if supervisor.failed:
                sys.exit(STARTUP_FAILURE)
    except SystemExit as stopped:
        raise ServerError(
            "Start-up failed: correct what the log lines above name (missing tables: add --migrate)"
        ) from stopped
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        bound.close()


@contextmanager
def _metrics_folder(workers: int) -> Iterator[Path | None]:
    """Make the folder in which several workers count together; None where one alone, or nobody, counts."""
    if not settings.IRONAUTH_METRICS or workers == 1:
        yield None
        return
    from ironauth.infrastructure.telemetry.metrics_files import shared_folder  # noqa: PLC0415 - for metrics alone

    with ExitStack() as stack:
        try:
            folder = stack.enter_context(shared_folder())
        except OSError as error:
            raise ServerError(
                f"Cannot make a folder for the workers' metrics ({error.strerror}): make /dev/shm or TMPDIR writable, "
                "or set IRONAUTH_METRICS=0"
            ) from error
        yield folder


class _Configuration(uvicorn.Config):
    """Uvicorn's configuration that keeps its own small talk out of the log: warnings and errors only."""

    slow_callback_ms: float | None = None
    metrics_folder: Path | None = None
    worker_sockets: Path | None = None

    def load(self) -> None:
        metrics.folder = self.metrics_folder  # before the application is imported: it counts from then on
        super().load()
        # Importing the application ran Django's logging configuration, which reset the level.
        self.configure_logging()
        if self.slow_callback_ms is not None:
            from ironauth.server.instrumentation import (  # noqa: PLC0415 - for --loop-debug alone: else it costs nothing
                loop_debug,
            )

            loop_debug.watch(self.slow_callback_ms)


def _bind_failure(host: str, port: int, error: OSError) -> str:
    """Return the sentence for a TCP address that cannot be bound."""
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < HIGHEST_PORT else port - 1
        return f"Port {port} on {host} is taken: stop what uses it, or choose another, e.g. make PORT={other} run"
    if error.errno == errno.EACCES:
        return f"Port {port} needs root: choose one above 1023, e.g. --port 8000"
    return f"Cannot listen on {host} port {port} ({error.strerror or error}): choose another --host or --port"


def _free_of_others(folder: Path) -> Path:
    """Return the folder of the workers' sockets, after those that a dead server left there are removed.

    Raises:
        ServerError: it is none that can be written, its name is too long, or another server's workers listen there.
    """
    if worker_sockets.is_too_long(folder):
        raise ServerError(f"The path {folder} is too long for a socket: choose a shorter --worker-sockets")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise ServerError(f"{folder} is no folder that this user can write: make it, or choose other --worker-sockets")
    for path in worker_sockets.of_folder(folder):
        _remove_stale(path)
    return folder.absolute()


def _remove_stale(path: Path) -> None:
    """Remove the socket a dead server left at ``path``; refuse to when it is alive or not a socket."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ServerError(f"{path} exists and is not a socket: move it away, or choose another --uds path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ServerError(f"Another server listens on {path}: stop it, or choose another --uds path")
