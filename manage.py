#!/usr/bin/env python
"""Run Django's and IronAuth's management commands."""

import os
import signal
import sys
from types import FrameType

from ironauth.config import asked_port
from ironauth.server import huge_pages

INTERRUPTED = 130  # what a shell reports for a command ended by SIGINT


def main() -> None:
    """Run the command; configuration errors and Ctrl-C end it without a traceback."""
    # A hash worker has settings of its own, which hold no secret: its machine knows no keys and no database.
    own = "ironauth.settings_hashworker" if sys.argv[1:2] == ["hashworker"] else "ironauth.settings"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", own)
    try:
        # Here, so that Ctrl-C is quiet during these imports too.
        from django.core.management import execute_from_command_line  # noqa: PLC0415 - see above
    except ModuleNotFoundError:
        sys.exit("Django is not installed for this Python: use .venv/bin/python, which make run prepares")
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415 - see above

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # The message names the setting and the remedy; a traceback above it would only hide them.
        sys.exit(f"Configuration: {error}")


def end_at_once(number: int, _frame: FrameType | None) -> None:
    """Do what the signal does to any other process: nothing is asked, a transaction that is open rolls back."""
    os._exit(128 + number)


if __name__ == "__main__":
    if os.getpid() == 1:
        # A container's first process: the kernel withholds the default actions from it, and SIGTERM before the server
        # listens for signals would be lost until the engine's patience ends with SIGKILL.
        signal.signal(signal.SIGTERM, end_at_once)
        signal.signal(signal.SIGINT, end_at_once)
    elif sys.argv[1:2] == ["serve"]:
        # Until the server listens for signals: a KeyboardInterrupt raised inside a callback of the import system is
        # printed and lost, and the server would start in spite of it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    asked_port.tell(sys.argv)
    huge_pages.unblock_interrupts()
    if sys.argv[1:2] in (["serve"], ["hash_calibrate"]):
        huge_pages.use_huge_pages()
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
