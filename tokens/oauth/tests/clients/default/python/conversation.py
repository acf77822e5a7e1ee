"""The program's side of the conversation that clients/__init__.py describes."""

import json
import sys
from typing import Any


def hear() -> Any:
    """Return what the other side says next."""
    return json.loads(sys.stdin.readline())


def visit(url: str) -> str:
    """Send the person's browser to an address; return where at the client it ended."""
    print(json.dumps({"visit": url}), flush=True)
    return str(hear())


def sign_out() -> str:
    """Let the person sign out at the provider; return the logout token that the client got."""
    print(json.dumps({"sign_out": True}), flush=True)
    return str(hear())


def passed(step: str) -> None:
    """Tell of a step."""
    print(json.dumps({"passed": step}), flush=True)
