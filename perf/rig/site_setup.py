"""A site of IronAuth made for measuring: its environment, database, keys and people, and the server on it."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from ironauth.tests.services import BinaryMissing, PrivatePostgres, PrivateRedis
from perf.rig.processes import Server, StartError, free_port
from perf.rig.seed import SeededSession

ROOT = Path(__file__).resolve().parents[2]  # of the repository
SET_UP_S = 120  # longest that migrating, making a key or seeding may take
# Production parameters (RFC 9106 §4, second recommendation with one lane), whatever the defaults become.
ARGON2 = {"time_cost": 3, "memory_kib": 65_536, "parallelism": 1}


def prepare_site(
    environment: dict[str, str], *, people: int, superuser: bool = False, sessions: bool = False
) -> list[SeededSession]:
    """Give the site of ``environment`` its tables, a signing key, and people to sign in (``perf.rig.seed``).

    Args:
        environment: of the site.
        people: how many there are.
        superuser: whether the first has every right.
        sessions: whether each has a session, which are returned in the people's order.

    Raises:
        StartError: a command failed.
    """
    prepare(["manage.py", "migrate", "--verbosity", "0"], environment)
    prepare(["manage.py", "create_signing_key"], environment)
    seeding = ["-m", "perf.rig.seed", "--users", str(people), *(["--superuser"] if superuser else [])]
    printed = prepare([*seeding, *(["--sessions", str(people)] if sessions else [])], environment)
    opened = next((line for line in printed.splitlines() if line.startswith("[")), "[]")  # its log is there too
    return msgspec.json.decode(opened, type=list[SeededSession])


@contextmanager
def installed() -> Iterator[None]:
    """Turn a program that is missing inside into ``StartError``."""
    try:
        yield
    except BinaryMissing as missing:
        raise StartError(str(missing)) from missing


def private_servers(folder: Path, stack: ExitStack) -> dict[str, str]:
    """Start a Postgres that keeps what it commits, and a Redis; return the settings that name them.

    Raises:
        StartError: one of the two is not installed.
    """
    with installed():
        postgres = stack.enter_context(PrivatePostgres(folder / "postgres", free_port(), "-c", "fsync=on"))
        redis = stack.enter_context(PrivateRedis(folder / "redis", free_port()))
    return {"DATABASE_URL": postgres.url, "REDIS_URL": redis.url}


def serve(
    log: Path, port: int, environment: dict[str, str], stack: ExitStack, *options: str, workers: int = 1
) -> Server:
    """Start IronAuth with further ``options`` of ``manage.py serve``; it answers /ping, and ``stack`` ends it.

    Raises:
        StartError: it ended early or stayed silent.
    """
    command = [sys.executable, "manage.py", "serve", "--workers", str(workers), "--port", str(port), *options]
    return stack.enter_context(Server(command, folder=ROOT, port=port, environment=environment, log=log))


def site_environment(folder: Path, *, port: int, hash_threads: int) -> dict[str, str]:
    """Return a production environment on SQLite in ``folder``: nothing of the developer's own settings is inherited."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("IRONAUTH_") and name not in ("DEBUG", "SECRET_KEY", "REDIS_URL", "DATABASE_URL")
    }
    return inherited | {
        "DJANGO_SETTINGS_MODULE": "ironauth.settings",
        "IRONAUTH_ENV_FILE": str(folder / "no-such-file"),
        "DEBUG": "0",
        "SECRET_KEY": secrets.token_urlsafe(48),
        "ALLOWED_HOSTS": "127.0.0.1",
        "IRONAUTH_ISSUER": f"http://127.0.0.1:{port}",
        "IRONAUTH_MASTER_KEYS": f"k1:{secrets.token_urlsafe(32)}",
        "DATABASE_URL": f"sqlite:///{folder / 'bench.sqlite3'}",
        "IRONAUTH_ARGON2_TIME_COST": str(ARGON2["time_cost"]),
        "IRONAUTH_ARGON2_MEMORY_KIB": str(ARGON2["memory_kib"]),
        "IRONAUTH_ARGON2_PARALLELISM": str(ARGON2["parallelism"]),
        "IRONAUTH_HASH_THREADS": str(hash_threads),
        "IRONAUTH_DELETION_GRACE_DAYS": "0",  # what a swarm made is gone when it ends
        "IRONAUTH_THROTTLE": "0",  # every client of a load test has the same address
        "IRONAUTH_LOG_FORMAT": "json",
        "IRONAUTH_LOG_LEVEL": "INFO",
        "IRONAUTH_ACCESS_LOG": "1",
        "PYTHONUNBUFFERED": "1",
    }


def prepare(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    folder: Path = ROOT,
    python: str = sys.executable,
    limit_s: float = SET_UP_S,
) -> str:
    """Run a Python command on the site (``["manage.py", "migrate"]``) and return what it prints.

    Args:
        arguments: the command.
        environment: of the site.
        folder: of the code, where it is not this repository.
        python: that runs it.
        limit_s: longest that it may take, in seconds.

    Raises:
        StartError: it failed; the message has its output.
    """
    done = subprocess.run(
        [python, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    if done.returncode:
        raise StartError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
