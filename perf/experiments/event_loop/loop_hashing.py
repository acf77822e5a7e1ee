"""IronAuth as it must not be, hashing on the event loop.

``python -m perf.experiments.event_loop.loop_hashing serve …``, as of ``manage.py``. Everything else is the product's.
One worker only: others would be spawned without this.
"""

import os
import sys
from collections.abc import Callable
from unittest.mock import patch

from django.core.management import execute_from_command_line

from ironauth.infrastructure.hashing import pool as hash_pool


class LoopHashing(hash_pool.HashPool):
    """A pool whose jobs run where they are handed in, as they do in a program that just calls its hasher."""

    async def run[T](self, fn: Callable[[], T], *, movable: bool = False) -> T:
        """Run ``fn`` at once, on the thread of the event loop, and return its result or raise what it raised."""
        return self._measured(fn)

    def run_blocking[T](self, fn: Callable[[], T], *, movable: bool = False) -> T:
        """Run ``fn`` at once, where the product's pool refuses to block an event loop."""
        return fn()


def main() -> None:
    """Do what ``manage.py`` does with the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    with patch.object(hash_pool, "HashPool", LoopHashing):
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
