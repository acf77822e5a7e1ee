"""Hiding what libraries look for and IronAuth does not use, so that a worker does not keep it in memory."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let ``import`` find none of the modules ``names`` inside the block, as if they were not installed.

    What has been imported before stays. Only for start-up: another thread's imports are kept from them, too.
    ``None`` in ``sys.modules`` is how Python itself has it (Language Reference §5.3.1, "The module cache").
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is allowed: see the docstring
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
