"""The port that ``serve --port`` names, told to the settings before they are read.

With DEBUG the issuer is an address on this machine: it has the port that is served, or nothing that names the issuer
(links, cookies, passkeys, tokens) would lead to this server.
"""

import argparse
import os
from collections.abc import Sequence
from typing import Final

NAME: Final = "IRONAUTH_SERVE_PORT"
HIGHEST: Final = 65_535


def tell(arguments: Sequence[str]) -> None:
    """Set the variable where ``serve --port`` is about to run; what is no port is left to the command to refuse.

    Port 0 is any free one, which is known when it is bound: the issuer stays what it is.

    Args:
        arguments: The process's own: the program, the command, its options.
    """
    if list(arguments[1:2]) != ["serve"]:
        return
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--port", nargs="?")
    port = parser.parse_known_args(arguments[2:])[0].port or ""
    if port.isascii() and port.isdigit() and 0 < int(port) <= HIGHEST:
        os.environ[NAME] = str(int(port))


def is_given() -> bool:
    """Tell whether the environment, or the file of the settings, names the port; without it is the usual one."""
    return NAME in os.environ


def origin(port: int) -> str:
    """Return the origin of this machine at a port, as a browser writes it."""
    return "http://localhost" if port == 80 else f"http://localhost:{port}"  # noqa: PLR2004 - http's own
