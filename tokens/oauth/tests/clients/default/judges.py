"""Programs of others that judge the way in of agents, and the table of them in the guide."""

import json
import re
from typing import Final, NamedTuple

from tokens.oauth.tests.clients.default import ran
from tokens.oauth.tests.clients.default.libraries import CLIENTS

#: The table, in the guide.
TABLE: Final = re.compile(r"^\| program \| result \|\n(?:\|.*\n)+", re.MULTILINE)
_LOCK: Final = "parties/javascript/package-lock.json"
_PINS: Final = "parties/python/requirements.txt"


class Judge(NamedTuple):
    """A program. ``pins``: the file with its version, below ``clients/``."""

    name: str
    what: str
    pins: str

    @property
    def version(self) -> str:
        """Its version, by the file that pins it."""
        text = (CLIENTS / self.pins).read_text(encoding="utf-8")
        if self.pins == _LOCK:
            return str(json.loads(text)["packages"][f"node_modules/{self.name}"]["version"])
        (version,) = re.findall(rf"^{re.escape(self.name)}==([^\s;]+)", text, re.MULTILINE)
        return str(version)


JUDGES: Final = (
    Judge("mcp", "the official Python SDK", _PINS),
    Judge("@modelcontextprotocol/sdk", "the official TypeScript SDK", _LOCK),
    Judge("fastmcp", "its server and its client", _PINS),
    Judge("@modelcontextprotocol/conformance", "`authorization`, with a client of the profile `agent`", _LOCK),
)


def table() -> str:
    """Return the table."""
    known = ran.kept()
    rows = (f"| `{one.name}` {one.version}, {one.what} | {'; '.join(known[one.name]['steps'])} |\n" for one in JUDGES)
    return "".join(["| program | result |\n", "|---|---|\n", *rows])
