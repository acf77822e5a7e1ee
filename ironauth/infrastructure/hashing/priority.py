"""A lower claim to the CPU for a thread that hashes. Imports nothing of the product: a small process uses it too."""

import os
import sys
import threading
from typing import Final

#: The weakest claim to the CPU that setpriority(2) offers, so that the event loop goes first.
WEAKEST_NICE: Final = 19


def lower_priority(nice: int) -> str:
    """Lower the calling thread's claim to the CPU to niceness ``nice`` and SCHED_BATCH; 0 changes nothing.

    A process that is nicer already stays so.

    Returns:
        Why the system refused, and hashing works at normal priority; "" where it did not.
    """
    if not nice or sys.platform != "linux":
        return ""  # elsewhere setpriority() takes a process, and would slow the event loop too
    try:
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))
        # Not SCHED_IDLE: /me under a flood was no faster on a quiet machine, and beside other programs its p99 about
        # doubled.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # 0: the calling thread
    except OSError as error:
        return str(error)
    return ""
