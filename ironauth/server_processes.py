"""The two ways Uvicorn runs: one worker in this process, or a supervisor of several; both tell when they are ready."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

logger = logging.getLogger(__name__)


class ReadyServer(uvicorn.Server):
    """A single worker in this process that tells when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], noted: list[int]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._noted = noted  # signals that came before Uvicorn listened for them

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so; or stop, when that has been asked for already."""
        await super().startup(sockets=sockets)
        if self._noted:  # a moment later: Uvicorn skips its shutdown when told to stop by now
            asyncio.get_running_loop().call_soon(setattr, self, "should_exit", True)
        else:
            self._on_ready()


class Supervisor(Multiprocess):
    """Uvicorn's supervisor (restarts dead workers, SIGHUP renews them one by one) that tells when all are ready."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], on_ready: Callable[[], None]) -> None:
        super().__init__(config, sockets)
        self._on_ready = on_ready
        self._announced = False

    @property
    def failed(self) -> bool:
        """Whether a worker ended because its start-up failed (its supervisor then stops them all)."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)

    def init_processes(self) -> None:
        """Start the workers."""
        with _no_interrupts():
            super().init_processes()

    def handle_signals(self) -> None:
        """Do what SIGHUP, SIGTTIN and the like ask for."""
        with _no_interrupts():
            super().handle_signals()

    def keep_subprocess_alive(self) -> None:
        """Uvicorn's look after the workers, every 0.5 s; restarts are logged, readiness is announced once."""
        before = [process.pid for process in self.processes]
        with _no_interrupts():
            super().keep_subprocess_alive()
        for old, process in zip(before, self.processes, strict=False):
            if process.pid != old:
                logger.warning("worker_restarted", extra={"dead_pid": old, "pid": process.pid})
        if not self._announced and not self.should_exit.is_set() and all(one.is_ready() for one in self.processes):
            self._announced = True
            self._on_ready()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block SIGINT, so that workers started inside never get one; this process gets its own at the end of the block.

    Ctrl-C reaches the whole process group; it is for the supervisor to end its workers.
    """
    resource_tracker.ensure_running()  # multiprocessing's own helper; starting it unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
