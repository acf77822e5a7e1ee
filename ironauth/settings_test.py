"""Settings of the test suite: real secrets made for the run, a temporary database, a cheap password hash.

``IRONAUTH_TEST_STORAGE=postgres`` runs the same tests on private Postgres and Redis servers, which the root
``conftest.py`` starts on the addresses chosen here.
"""

import base64
import os
import secrets
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

STORAGE = os.environ.get("IRONAUTH_TEST_STORAGE", "sqlite")
#: Everything a run leaves on disk; removed by the root conftest.
RUN_FOLDER = Path(os.environ.get("IRONAUTH_TEST_FOLDER") or tempfile.mkdtemp(prefix="ironauth-test-"))


def _free_port() -> int:
    """Return a TCP port nothing listens on now, below those that the kernel chooses itself."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", 12_000 + secrets.randbelow(20_000)))
            return int(probe.getsockname()[1])


def _key() -> str:
    """Return 32 random bytes as base64url."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


POSTGRES_PORT = _free_port()
REDIS_PORT = _free_port()
ENVIRONMENT = {
    "IRONAUTH_ENV_FILE": os.devnull,
    "DEBUG": "0",
    "SECRET_KEY": secrets.token_urlsafe(48),
    "ALLOWED_HOSTS": "testserver,localhost,127.0.0.1",
    "IRONAUTH_ISSUER": "http://localhost:8000",
    "IRONAUTH_MASTER_KEYS": f"t1:{_key()}",
    "IRONAUTH_COOKIE_SECURE": "0",
    "IRONAUTH_LOGOUT_NETWORKS": "127.0.0.0/8",  # the applications of the tests are on this machine
    "IRONAUTH_ARGON2_TIME_COST": "2",  # the OWASP floor, for the real server processes some tests start
    "IRONAUTH_ARGON2_MEMORY_KIB": "19456",
    "IRONAUTH_HASH_NICE": "0",  # beside two other parts of the suite threads that give way would miss their limits
    "IRONAUTH_HASH_APART": "0",  # some 500 processes of the suite would start one more; tests of it set it
    "IRONAUTH_LOG_FORMAT": "json",
    "DATABASE_URL": f"sqlite:///{RUN_FOLDER / 'ironauth.sqlite3'}",
    "IRONAUTH_ACCESS_LOG": "0",  # one line a request would bury what a failing test prints
    "REDIS_URL": "",
    "IRONAUTH_THROTTLE": "0",  # the suite signs in thousands of times from one address; tests of the throttles set it
    "IRONAUTH_ORGANIZATIONS": "anybody",  # their paths are walked as all others; tests of the default set it
    "EMAIL_URL": f"filemail://{RUN_FOLDER / 'mail'}",  # of real processes; in this one Django keeps messages in memory
}
if STORAGE == "postgres":
    ENVIRONMENT["DATABASE_URL"] = f"postgres://postgres@127.0.0.1:{POSTGRES_PORT}/ironauth"
    ENVIRONMENT["REDIS_URL"] = f"redis://127.0.0.1:{REDIS_PORT}/0"
os.environ.update(ENVIRONMENT)

from ironauth.settings import *  # noqa: E402, F403 - the product's settings, after the environment is complete
from ironauth.settings import DATABASES  # noqa: E402 - named, because it is changed below

# In this process hashes cost next to nothing: tests of the cost itself override it.
IRONAUTH_ARGON2_TIME_COST = 1
IRONAUTH_ARGON2_MEMORY_KIB = 256
# Beside two other parts of the suite a unit of work may wait longer for a core than a server would let it.
IRONAUTH_DATABASE_TIMEOUT_S = 5.0

if STORAGE == "sqlite":
    # A file, not memory: the pools' threads open their own connections, as in production.
    DATABASES["default"]["TEST"] = {"NAME": str(RUN_FOLDER / "test.sqlite3")}
