"""Start ``manage.py`` with a clock of its own: ``python -m perf.faults.clocked FILE serve --workers 1 …``.

FILE holds by how many seconds the clock is ahead (negative: behind), and is read again every 50 ms. What moves is
``time.time`` in this process, put in place before anything of IronAuth is imported:
``ironauth.infrastructure.core.clock``, the one source of wall-clock time there, takes it from there. ``datetime.now``
and the C libraries keep the machine's clock; a time namespace of Linux would move the monotonic clock only, which is
not what differs between machines.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.05


def main() -> None:
    """Shift the clock, then do what ``manage.py`` does."""
    file, arguments = Path(sys.argv[1]), sys.argv[2:]
    shift(file, threading.Event())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - imports time.time, shifted by now

    execute_from_command_line(["manage.py", *arguments])


def shift(file: Path, over: threading.Event) -> Callable[[], float]:
    """Let ``time.time`` follow ``file`` until ``over``; return the machine's own clock."""
    true, ahead = time.time, [0.0]

    def follow() -> None:
        while True:
            with suppress(OSError, ValueError):  # being written at this moment
                ahead[0] = float(file.read_text(encoding="ascii"))
            if over.wait(LOOK_S):
                return

    threading.Thread(target=follow, name="clock", daemon=True).start()
    time.time = lambda: true() + ahead[0]
    return true


if __name__ == "__main__":
    main()
