"""A name of the tests leads to this machine, for a server whose PYTHONPATH has this folder."""

import socket
from typing import Any

HOST = "agent.example.com"
_found = socket.getaddrinfo


def getaddrinfo(host: Any, *others: Any, **more: Any) -> Any:
    """Return the addresses of a host."""
    return _found("127.0.0.1" if host == HOST else host, *others, **more)


socket.getaddrinfo = getaddrinfo
