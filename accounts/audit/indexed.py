"""What of an event's details and address an index serves, so that a filter by it reads what it finds and no more.

The indexes are over expressions: rows of this table never change, so that no column could be filled for old ones.
"""

import ipaddress
from typing import Any, Final, NamedTuple

from django.db.models import CharField, Func

_OCTET_BITS: Final = 8
_GROUP_BITS: Final = 16


class Detail(Func):
    """A text of the details, by its ``key``; NULL where there is none. ``key`` is a constant of the code."""

    output_field = CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Return the expression, letter by letter as the index has it."""
        return self.as_sql(compiler, connection, template="json_extract(%(expressions)s, '$.%(key)s')", **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Return the expression, as the index has it."""
        return self.as_sql(compiler, connection, template="(%(expressions)s ->> '%(key)s')", **extra)


class TextRange(NamedTuple):
    """Texts from ``first`` on and before ``end``; ``exact``: every address among them is in the network."""

    first: str
    end: str
    exact: bool


def text_range(network: str) -> TextRange | None:
    """Return where the addresses of a network are in the order of their texts; None where that says nothing.

    SQLite keeps addresses as texts. Those of a network begin alike as far as its prefix has whole octets (IPv6: whole
    groups before the first that is zero, which may be left out of the text).
    """
    found = ipaddress.ip_network(network)
    if found.prefixlen == found.max_prefixlen:
        text = str(found.network_address)
        return TextRange(text, f"{text}\0", exact=True)
    if found.version == 4:  # noqa: PLR2004 - IPv4
        whole = found.prefixlen // _OCTET_BITS
        begin = "".join(f"{octet}." for octet in found.network_address.packed[:whole])
        exact = found.prefixlen % _OCTET_BITS == 0
    else:
        groups = found.network_address.exploded.split(":")[: found.prefixlen // _GROUP_BITS]
        named = groups[: next((place for place, group in enumerate(groups) if int(group, 16) == 0), len(groups))]
        begin = "".join(f"{int(group, 16):x}:" for group in named)
        exact = len(named) == len(groups) and found.prefixlen % _GROUP_BITS == 0
    return TextRange(begin, begin[:-1] + chr(ord(begin[-1]) + 1), exact) if begin else None
