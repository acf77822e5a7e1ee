"""Servers of this process, in threads of their own."""

import socket
import threading
import time
from typing import Any

import uvicorn

PATIENCE_S = 60.0


def serve(application: Any, port: int) -> None:
    """Serve an application at a port of this machine, and wait until it listens."""
    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    deadline = time.monotonic() + PATIENCE_S
    while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody listens at {port}")
        time.sleep(0.05)
