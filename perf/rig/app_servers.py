"""IronAuth under other ASGI servers than its own: one worker each, the same application."""

import sys
from pathlib import Path

APPLICATION = "ironauth.asgi:application"
OURS, UVICORN, GRANIAN = "ours", "uvicorn", "granian"
TITLES = {
    OURS: "`manage.py serve` (Uvicorn, our protocol class)",
    UVICORN: "Uvicorn as it comes (httptools, uvloop)",
    GRANIAN: "Granian (asgi, uvloop, one runtime thread)",
}
KEEP_ALIVE_S = 65  # as manage.py serve: longer than nginx keeps a connection to it


def command(server: str, where: int | Path) -> list[str]:
    """Return the command that serves IronAuth in one worker on a loopback port or a Unix socket."""
    tcp = isinstance(where, int)
    place = ["--port", str(where)] if tcp else ["--uds", str(where)]
    if server == OURS:
        return [sys.executable, "manage.py", "serve", "--workers", "1", *place]
    if server == UVICORN:
        options = "--interface asgi3 --http httptools --loop uvloop --ws none --lifespan on --log-level warning"
        quiet = "--no-access-log --no-server-header --no-proxy-headers"  # all of them IronAuth's own business
        keep = ["--timeout-keep-alive", str(KEEP_ALIVE_S)]
        return [sys.executable, "-m", "uvicorn", APPLICATION, *options.split(), *quiet.split(), *keep, *place]
    options = "--interface asgi --http 1 --no-ws --workers 1 --runtime-threads 1 --loop uvloop --log-level warning"
    return [sys.executable, "-m", "granian", *options.split(), *place, APPLICATION]
