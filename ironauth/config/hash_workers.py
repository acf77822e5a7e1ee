"""Settings of hash workers: where they are, and how both ends know each other.

Raises ``ImproperlyConfigured`` in one line that names the variable and the remedy.
"""

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from ironauth.config.addresses import is_host
from ironauth.config.environment import Environment

WORKERS: Final = "IRONAUTH_HASH_WORKERS"
MAX_WORKERS: Final = 16
HIGHEST_PORT: Final = 65_535  # 16 bits (RFC 9293 §3.1)
MAX_SOCKET_PATH: Final = 107  # bytes: sun_path of unix(7) without its end
_REMEDY: Final = "write tls://host:port or unix:/absolute/path, separated by commas"


class WorkerAddress(NamedTuple):
    """A Unix socket's ``path``, or ``host`` and ``port`` for TLS."""

    path: str = ""
    host: str = ""
    port: int = 0


class WorkerTls(NamedTuple):
    """The files with which this node shows itself and checks workers."""

    cert: Path
    key: Path
    ca: Path


class HashWorkerSettings(NamedTuple):
    """Where the hash workers are, and how long and by how many connections they are asked.

    Attributes:
        addresses: One for each worker.
        tls: The files for addresses with TLS; None where all are Unix sockets.
        connections: Connections of one process to each worker.
        timeout_s: Seconds for each hash.
    """

    addresses: tuple[WorkerAddress, ...]
    tls: WorkerTls | None
    connections: int
    timeout_s: float


def read(env: Environment, *, peppers: Mapping[str, bytes]) -> HashWorkerSettings | None:
    """Return what is set about hash workers; None when none is named.

    Args:
        env: Where the settings are read from.
        peppers: IRONAUTH_PASSWORD_PEPPERS, by id.

    Raises:
        ImproperlyConfigured: There are too many workers, no pepper (the password itself would have to travel), or
            settings of hash workers without a worker.
    """
    items = env.words("IRONAUTH_HASH_WORKERS")
    files = {
        "IRONAUTH_HASH_WORKER_CERT": env.text("IRONAUTH_HASH_WORKER_CERT", default=""),
        "IRONAUTH_HASH_WORKER_KEY": env.text("IRONAUTH_HASH_WORKER_KEY", default=""),
        "IRONAUTH_HASH_WORKER_CA": env.text("IRONAUTH_HASH_WORKER_CA", default=""),
    }
    connections = env.whole("IRONAUTH_HASH_WORKER_CONNECTIONS", default=8)
    timeout_s = env.number("IRONAUTH_HASH_WORKER_TIMEOUT_S", default=2.0)
    if not items:
        if named := [name for name, value in files.items() if value]:
            raise ImproperlyConfigured(
                f"{named[0]} is for hash workers, and {WORKERS} names none: set it, or remove this"
            )
        return None
    if not peppers:
        raise ImproperlyConfigured(
            f"{WORKERS} needs IRONAUTH_PASSWORD_PEPPERS, without which passwords would have to leave this machine: "
            "set a pepper (deploy/env.example says how it is made), or remove the workers"
        )
    addresses = tuple(_address(item, number) for number, item in enumerate(items, start=1))
    if len(set(addresses)) < len(addresses) or len(addresses) > MAX_WORKERS:
        raise ImproperlyConfigured(f"{WORKERS} must name at most {MAX_WORKERS} workers, each once: {_REMEDY}")
    tls = _tls(files) if any(address.host for address in addresses) else None
    return HashWorkerSettings(addresses, tls, connections, timeout_s)


def _address(item: str, number: int) -> WorkerAddress:
    path = item.removeprefix("unix:")
    if path != item and path.startswith("/") and len(path.encode()) <= MAX_SOCKET_PATH:
        if not can_tell_users():
            raise ImproperlyConfigured(f"{WORKERS}, item {number}: a Unix socket needs Linux here: use tls://host:port")
        return WorkerAddress(path=path)
    found = re.fullmatch(r"tls://(.+):([1-9][0-9]{0,4})", item)
    if found is None or not is_host(found[1]) or int(found[2]) > HIGHEST_PORT:
        raise ImproperlyConfigured(f"{WORKERS}, item {number}: not the address of a hash worker: {_REMEDY}")
    return WorkerAddress(host=found[1].strip("[]"), port=int(found[2]))


def can_tell_users() -> bool:
    """Return whether the system says which user is at the other end of a Unix socket."""
    return hasattr(socket, "SO_PEERCRED")


def _tls(files: Mapping[str, str]) -> WorkerTls:
    for name, value in files.items():
        if not value or not Path(value).is_absolute() or not Path(value).is_file():
            raise ImproperlyConfigured(
                f"{name} is not the absolute path of a file, and {WORKERS} has a tls:// address: "
                "name this node's certificate, its key, and the CA that signed the workers'"
            )
    cert, key, ca = (Path(value) for value in files.values())
    return WorkerTls(cert, key, ca)
