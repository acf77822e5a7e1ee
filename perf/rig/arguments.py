"""Command lines of the laboratory: a mistake is one line, which says what a valid value looks like."""

import argparse
import ipaddress
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn
from urllib.parse import SplitResult, urlsplit


class Parser(argparse.ArgumentParser):
    """As argparse's, without its paragraph of usage before each mistake."""

    def error(self, message: str) -> NoReturn:
        """End the program with status 2 and one line."""
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def number(low: float, high: float, example: float) -> Callable[[str], float]:
    """Return what reads a number from ``low`` to ``high``."""
    return _within("number", float, low, high, example)


def whole_number(low: int, high: int, example: int) -> Callable[[str], int]:
    """Return what reads a whole number from ``low`` to ``high``."""
    return _within("whole number", int, low, high, example)


def local_url(text: str) -> SplitResult:
    """Read http://HOST:PORT/PATH; the host must be a loopback address, as load belongs on one's own machine.

    Raises:
        argparse.ArgumentTypeError: it is something else.
    """
    try:
        url = urlsplit(text)
        loopback = ipaddress.ip_address(url.hostname or "").is_loopback and url.port != 0
    except ValueError:
        loopback = False
    if not loopback or url.scheme != "http":
        raise argparse.ArgumentTypeError(f"{text!r} is no URL of this machine: give one such as http://127.0.0.1:8000/")
    return url


def _within[T: (int, float)](kind: str, read: Callable[[str], T], low: T, high: T, example: T) -> Callable[[str], T]:
    def within(text: str) -> T:
        with suppress(ValueError):
            if low <= (value := read(text)) <= high:  # neither is nan
                return value
        refusal = f"{text!r} is no {kind} from {low:,g} to {high:,g}: give one such as {example:g}"
        raise argparse.ArgumentTypeError(refusal)

    return within
