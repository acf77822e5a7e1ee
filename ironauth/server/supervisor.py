"""The two ways Uvicorn runs: one worker in this process, or a supervisor of several; both tell when they are ready."""

import asyncio
import logging
import math
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from ironauth.server.graceful import GracefulServer
from ironauth.server.worker_sockets import WorkerSocket

ENDING = (signal.SIGINT, signal.SIGTERM)
#: Seconds after which a terminal that was there is no reason any more for a SIGHUP: a shell passes one on when it ends.
HANG_UP_S = 5.0
LOOK_S = 0.1  # how long a wait for a worker goes on before it looks whether it is still wanted
logger = logging.getLogger(__name__)


class ReadyServer(GracefulServer):
    """A single worker in this process that tells when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], noted: list[int]) -> None:
        """Prepare a server.

        Args:
            config: Uvicorn's configuration.
            on_ready: called once the application has started.
            noted: signals that came before Uvicorn listened for them, and those it never listens for.
        """
        super().__init__(config)
        self.own_socket = own_socket(config, 0)
        self._on_ready = on_ready
        self._noted = noted

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so; or stop, when that has been asked for already."""
        await super().startup(sockets=sockets)
        if self._noted:  # a moment later: Uvicorn skips its shutdown when told to stop by now
            asyncio.get_running_loop().call_soon(self._end)
        else:
            self._on_ready()

    def _end(self) -> None:
        self.should_exit = True
        self.look()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end: a signal that Uvicorn does not know (SIGHUP) counts as the others do."""
        return await super().on_tick(counter) or bool(self._noted)


class WorkerServer(GracefulServer):
    """The server within a worker process: told to end before it accepts connections, it does so at once.

    Uvicorn would finish the imports and the start-up first, which takes seconds when many workers share a CPU.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal for the drain; or end the process where there is nothing to drain yet."""
        if not hasattr(self, "servers"):  # set when it begins to listen
            os._exit(128 + sig)
        super().handle_exit(sig, frame)


class Worker(Process):
    """A worker process as its supervisor sees it."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], stop: threading.Event, number: int = 0
    ) -> None:
        """Prepare a process that is not started yet.

        Args:
            config: Uvicorn's configuration.
            sockets: where it accepts connections.
            stop: whatever waits for the process gives up once it is set.
            number: of its own socket, if workers have such.
        """
        super().__init__(config, sockets)
        self._stop = stop
        self._number = number

    def __getstate__(self) -> dict[str, Any]:
        """Return what the child process gets: no event, which is for the threads of one process."""
        return {name: value for name, value in vars(self).items() if name != "_stop"}

    @property
    def server(self) -> uvicorn.Server:
        """The server that the child process runs."""
        if self._server is None:
            server = WorkerServer(config=self.config)
            server.own_socket = own_socket(self.config, self._number)
            self._server = server
        return self._server

    def start(self) -> None:
        """Start the child process.

        Raises:
            OSError: the machine allows no further one.
        """
        with _no_interrupts():
            super().start()

    def _healthcheck(self, timeout: float) -> bool | None:
        """Return whether it has started, None without an answer in ``timeout`` seconds, when it is dead or ``stop``."""
        deadline = time.monotonic() + timeout
        try:
            self.parent_conn.send(b"ping")
            while not self.parent_conn.poll(LOOK_S):
                if self._stop.is_set() or time.monotonic() >= deadline or not self.process.is_alive():
                    return None
            started: bool = self.parent_conn.recv()
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return started


class Supervisor(Multiprocess):
    """Uvicorn's supervisor (restarts dead workers, SIGHUP renews them one by one) that tells when all are ready.

    SIGINT and SIGTERM count from the moment they arrive: no worker is started after them, no wait goes on.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], on_ready: Callable[[], None]) -> None:
        """Prepare a supervisor; signals count from now on.

        Args:
            config: Uvicorn's configuration.
            sockets: where the workers accept connections.
            on_ready: called once every worker has started.
        """
        self._minds_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # nohup(1) has it ignored
        super().__init__(config, sockets)
        self._terminal_seen_at = -math.inf
        self._look_at_terminal()
        self.should_exit = _Stop(self.signal_queue)
        self._on_ready = on_ready
        self._announced = False
        self._incomplete = False
        self._starting = False
        for number in ENDING:
            signal.signal(number, self._note_end)

    @property
    def failed(self) -> bool:
        """Whether a worker could not start, or ended because its start-up failed (all are stopped then)."""
        return self._incomplete or any(process.exitcode == STARTUP_FAILURE for process in self.processes)

    def init_processes(self) -> None:
        """Start the workers, until told to end or until one cannot be started."""
        while len(self.processes) < self.processes_num and not self.should_exit.is_set():
            if (worker := self._started(len(self.processes))) is None:
                self._incomplete = not self.should_exit.is_set()
                self.should_exit.set()
            else:
                self.processes.append(worker)

    def keep_subprocess_alive(self) -> None:
        """Replace dead and hung workers, every 0.5 s; restarts are logged, readiness is announced once."""
        self._look_at_terminal()
        for at, process in enumerate(self.processes):
            if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
                continue
            if self.should_exit.is_set():  # it may be well: the question was cut short
                return
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:  # the next one would fail in the same way
                logger.error("worker_start_failed", extra={"dead_pid": process.pid})
                self.should_exit.set()
                return
            if (worker := self._started(at)) is not None:
                dead = {"dead_pid": process.pid, "exit": process.exitcode}  # negative: the signal that ended it
                logger.warning("worker_restarted", extra=dead | {"pid": worker.pid})
                self.processes[at] = worker
        if not self._announced and all(one.is_ready() for one in self.processes) and not self.should_exit.is_set():
            self._announced = True
            self._on_ready()

    def restart_all(self) -> None:
        """Renew the workers one by one, each retired when its successor serves; stop at one that does not."""
        for at, old in enumerate(self.processes):
            if self.should_exit.is_set() or (worker := self._started(at)) is None:
                return
            ready = worker.wait_until_ready(self.config.timeout_worker_healthcheck, self.should_exit)
            if self.should_exit.is_set():
                self.processes.append(worker)  # ended with the others
                return
            if not ready:
                worker.kill()
                worker.join()
                logger.error("worker_not_renewed", extra={"pid": old.pid, "dead_pid": worker.pid})
                return
            self.processes[at] = worker
            self._retire(old)
            logger.info("worker_renewed", extra={"pid": worker.pid, "old_pid": old.pid})

    def handle_hup(self) -> None:
        """Renew the workers; end them when it was the terminal that closed just now."""
        if self._look_at_terminal() or time.monotonic() - self._terminal_seen_at > HANG_UP_S:
            super().handle_hup()
        else:
            self.should_exit.set()

    def _look_at_terminal(self) -> bool:
        """Return whether there is a terminal whose end would be ours, and remember when there was."""
        if not self._minds_terminal or not _has_terminal():
            return False
        self._terminal_seen_at = time.monotonic()
        return True

    def terminate_all(self) -> None:
        """Tell the workers to end; with them nobody listens any more, so that newcomers are refused at once."""
        for listening in self.sockets:
            listening.close()
        super().terminate_all()

    def handle_ttin(self) -> None:
        """Start one more worker."""
        if (worker := self._started(len(self.processes))) is not None:
            self.processes_num += 1
            self.processes.append(worker)

    def handle_ttou(self) -> None:
        """End the last worker, unless it is the only one."""
        if self.processes_num > 1:
            self.processes_num -= 1
            self._retire(self.processes.pop())

    def _started(self, number: int) -> Worker | None:
        """Return a new worker of that number; None, and a line in the log, where the machine allows no further one."""
        self._starting = True
        try:
            worker = Worker(self.config, self.sockets, self.should_exit, number)
            worker.start()
        except (OSError, ValueError) as error:
            if not self.should_exit.is_set():  # else the sockets may have been closed a moment ago
                logger.error("worker_not_started", extra={"reason": str(error), "workers": len(self.processes)})  # noqa: TRY400 - the reason says it all
            return None
        finally:
            self._starting = False
        return worker

    def _note_end(self, number: int, _frame: FrameType | None) -> None:
        """Queue the signal, and listen no more: where workers got it too, nobody would answer new connections."""
        self.signal_queue.append(number)
        if not self._starting:  # a worker that is being started is given the sockets
            for listening in self.sockets:
                listening.close()

    def _retire(self, process: Process) -> None:
        """End one worker and wait for its drain; told to end meanwhile, leave the waiting to the common end."""
        process.terminate()
        while process.process.is_alive():
            if self.should_exit.wait(LOOK_S):
                self.processes.append(process)
                return


class _Stop(threading.Event):
    """Uvicorn's event of the end, set also as soon as SIGINT or SIGTERM is in ``queue``.

    The handler only queues them: an event that it set could be locked by the very thread it interrupts.
    """

    def __init__(self, queue: list[int]) -> None:
        super().__init__()
        self._queue = queue

    def is_set(self) -> bool:
        """Return whether the end has been asked for."""
        return super().is_set() or any(number in ENDING for number in self._queue)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it up to ``timeout`` seconds (a signal does not shorten that); return ``is_set``."""
        return self.is_set() or super().wait(timeout) or self.is_set()


def own_socket(config: uvicorn.Config, number: int) -> WorkerSocket | None:
    """Return the socket of a worker; None where workers have none of their own.

    Args:
        config: Uvicorn's configuration, which may name their folder.
        number: Of the worker, from 0.
    """
    folder = getattr(config, "worker_sockets", None)
    return None if folder is None else WorkerSocket(folder, number)


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal; one that was closed is none any more."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block SIGINT and SIGHUP, so that workers started inside never get one; this process gets its own at the end.

    Ctrl-C and a terminal that closes reach the whole process group; it is for the supervisor to end or renew workers.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        resource_tracker.ensure_running()  # multiprocessing's own helper; starting it unblocks SIGINT
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
