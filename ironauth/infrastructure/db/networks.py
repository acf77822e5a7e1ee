"""The lookup ``in_network`` of address columns: Postgres has an operator for it, SQLite gets a function."""

import ipaddress
import socket
from functools import lru_cache
from typing import Any, Final, cast

from django.db.backends.signals import connection_created
from django.db.models import GenericIPAddressField, Lookup

_FUNCTION: Final = "ironauth_in_network"


@GenericIPAddressField.register_lookup
class InNetwork(Lookup):
    """Whether an address is in a network, written like ``192.0.2.0/24``. SQLite looks at each row."""

    lookup_name = "in_network"
    prepare_rhs = False

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the condition with Postgres' operator for "contained in, or equal"."""
        column, params = self.process_lhs(compiler, connection)
        return f"{column} <<= %s::inet", [*params, str(self.rhs)]

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the condition with the function that each connection gets."""
        column, params = self.process_lhs(compiler, connection)
        return f"{_FUNCTION}({column}, %s)", [*params, str(self.rhs)]


def network(text: str) -> str:
    """Return an address or a network in its standard form; an address is a network of one.

    Raises:
        ValueError: It is neither, or has bits set to the right of its prefix length.
    """
    return str(ipaddress.ip_network(text.strip()))


@lru_cache(maxsize=64)
def _bounds(wanted: str) -> tuple[int, int, int]:
    """Return the length of the network's addresses in bytes, its mask, and its first address, as numbers."""
    found = ipaddress.ip_network(wanted)
    return found.max_prefixlen // 8, int(found.netmask), int(found.network_address)


def _is_in(address: str | None, wanted: str) -> bool:
    """Tell whether an address is in a network: of every row that is looked at, so without making objects of it."""
    if address is None:
        return False
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except OSError:
        return False
    length, mask, first = _bounds(wanted)
    return len(packed) == length and int.from_bytes(packed) & mask == first


def _add_function(sender: object, connection: Any, **_: object) -> None:  # noqa: ARG001 - Django's signature
    if connection.vendor == "sqlite":
        cast("Any", connection.connection).create_function(_FUNCTION, 2, _is_in, deterministic=True)


connection_created.connect(_add_function, dispatch_uid=_FUNCTION)
