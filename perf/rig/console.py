"""What the laboratory's commands share: lines with the time of day, and one way out."""

import signal
import sys
import time
from collections.abc import Callable

from perf.rig.processes import StartError

INTERRUPTED = 130  # what a shell reports for a command ended by SIGINT


def say(line: str) -> None:
    """Write one line of progress."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def leave_by_interrupt() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, by ``KeyboardInterrupt``, so that servers are ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs are started without
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def status_of(run: Callable[[], int], *, lost: str = ", nothing was saved") -> int:
    """Return the exit status of ``run``: its own, 2 where something did not start, 130 when it was interrupted.

    ``lost``: what an interruption costs, behind "what was started has been ended".
    """
    try:
        return run()
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"Interrupted: what was started has been ended{lost}.\n")
        return INTERRUPTED


def _interrupt(_number: int, _frame: object) -> None:
    """Raise the other signal.

    An exception from here would be swallowed by a callback of a running event loop, while asyncio.Runner has its own
    handler for SIGINT, which cancels what runs.
    """
    signal.raise_signal(signal.SIGINT)
