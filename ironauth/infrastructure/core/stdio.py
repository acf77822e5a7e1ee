"""Ending quietly when the reader of a command's output leaves (``| head``)."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

READER_GONE: Final = 141  # what a shell reports for a command ended by SIGPIPE


@contextmanager
def ignore_broken_pipe(out: Any) -> Iterator[None]:
    """End the process quietly, as other programs do, when nobody reads any more what the block writes to ``out``."""
    try:
        yield
        out.flush()
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # what is still buffered goes nowhere when the interpreter flushes it
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        sys.exit(READER_GONE)
