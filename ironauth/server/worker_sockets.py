"""A Unix socket of its own for each worker, beside the one they share: a proxy can send a token to the same worker.

A worker listens on it once it is ready, and puts it in the place of what was there by a rename. So its successor takes
over without a gap, and where a worker was killed a proxy is refused at once and asks another.
"""

import os
import socket
from pathlib import Path
from typing import Final

#: The reverse proxy is in the socket's group; nobody else speaks to it.
MODE: Final = 0o660
#: Bytes of a Unix socket's path (unix(7): 108 with the zero at its end).
MAX_PATH_BYTES: Final = 107
#: What the name has more while its worker starts: a dot, and the process id.
_SPARE_BYTES: Final = 12
#: A worker's number has three digits at most.
_LONGEST_NAME: Final = "worker-999.sock"


def path_of(folder: Path, number: int) -> Path:
    """Return where a worker listens.

    Args:
        folder: Of the workers' sockets.
        number: Of the worker, from 0.
    """
    return folder / f"worker-{number}.sock"


def of_folder(folder: Path) -> list[Path]:
    """Return the sockets of workers in ``folder``, also those that were left behind."""
    return sorted(folder.glob("worker-*.sock*"))


def is_too_long(folder: Path) -> bool:
    """Return whether sockets in ``folder`` would have longer names than the kernel takes."""
    return len(os.fsencode(folder / _LONGEST_NAME)) + _SPARE_BYTES > MAX_PATH_BYTES


class WorkerSocket:
    """One worker's; bound before it listens, shown once it does."""

    def __init__(self, folder: Path, number: int) -> None:
        """Make nothing yet."""
        self._path = path_of(folder, number)
        self._apart = self._path.with_name(f"{self._path.name}.{os.getpid()}")

    def bind(self) -> socket.socket:
        """Return a socket under a name that nobody knows, where nobody listens yet."""
        self._apart.unlink(missing_ok=True)  # of another process that had this number
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(str(self._apart))
            self._apart.chmod(MODE)
        except OSError:
            bound.close()
            raise
        return bound

    def show(self) -> None:
        """Take the place of the worker that had it before."""
        self._apart.rename(self._path)
