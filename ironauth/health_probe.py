"""Ask this machine's server how it is: ``python -m ironauth.health_probe /health``, the image's HEALTHCHECK.

A second argument is the Unix socket it listens on (``serve --uds``) instead of port 8000.
Only the standard library is used, and no settings are loaded: it runs every half minute beside a busy server.
"""

import http.client
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

PORT = 8000  # the one of the image's command
TIMEOUT_S = 4.0  # /health answers within 2 s when the database is gone; the image's limit is 5 s, start-up included
ENVIRONMENT_FILE = "var/env"  # where the settings look too
SHOWN = 500  # characters of an answer; what Docker keeps of a check is bounded


def host() -> str:
    """Return a name the server answers to: the first of ALLOWED_HOSTS, from the environment or its file."""
    hosts = os.environ.get("ALLOWED_HOSTS")
    if hosts is None:
        hosts = _from_file(Path(os.environ.get("IRONAUTH_ENV_FILE") or ENVIRONMENT_FILE))
    first = next((item for item in map(str.strip, hosts.split(",")) if item), "")
    return first.removeprefix(".") or "localhost"  # `.example.com` stands for example.com as well


def _from_file(path: Path) -> str:
    """Return ALLOWED_HOSTS as ``path`` has it, empty where it does not or cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    found = [line.removeprefix("export ").partition("=") for line in lines]
    values = [value.strip().strip("'\"") for name, _, value in found if name == "ALLOWED_HOSTS"]
    return values[-1] if values else ""  # the last line is the one that counts


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over the Unix socket at ``path``."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def ask(path: str, port: int = PORT, uds: Path | None = None) -> tuple[bool, str]:
    """Return whether the server on this machine answers ``path`` with 200, and what there is to say of it.

    Args:
        path: A path of the server's own health pages.
        port: The TCP port on loopback, where no socket is given.
        uds: The server's Unix socket.
    """
    # Not urllib, which would take the way through a proxy that the environment names.
    connection = _UnixConnection(uds) if uds else http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Host": host()})
        answer = connection.getresponse()
        said = answer.read(SHOWN).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer on {uds or f'port {port}'}: {error or type(error).__name__}"
    finally:
        connection.close()
    return answer.status == http.client.OK, f"{answer.status} {said}"


def main(arguments: Sequence[str]) -> int:
    """Print the answer; return the exit status: 0 for a 200, else 1 (Docker reserves 2)."""
    if len(arguments) not in (1, 2) or not all(each.startswith("/") for each in arguments):
        sys.stderr.write("usage: python -m ironauth.health_probe /PATH [/SOCKET]\n")
        return 1
    well, said = ask(arguments[0], uds=Path(arguments[1])) if len(arguments) > 1 else ask(arguments[0])
    sys.stdout.write(f"{said}\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
