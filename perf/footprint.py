"""What a server holds: memory of a worker, bytes of each stored row. ``python -m perf.footprint [people]``.

Bytes and not milliseconds, hence fair beside other work; ``docs/operate/sizing.md`` has what was measured.
"""

import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import psycopg

from perf.rig.console import say
from perf.rig.processes import StartError, free_port, process_tree
from perf.rig.seed import PASSWORD, email_of
from perf.rig.site_setup import prepare, prepare_site, private_servers, serve, site_environment

PEOPLE, THREADS, SIGN_INS = 20_000, 2, 16
#: A person, a session and an event, as `perf.rig.seed` stores them.
TABLES: Final = ("accounts_user", "tokens_session", "accounts_auditevent")
LEAST: Final = 1_000  # rows of a table whose bytes a row mean anything


class Memory(NamedTuple):
    """MiB of a server with one worker, all of its processes: idle, after some sign-ins, and the sum of their peaks.

    Pages that processes share count once, but for the peaks.
    """

    idle: float
    later: float
    most: float


def main() -> int:
    """Serve a site on each storage, sign people in at once, and print both tables."""
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    say("| storage | idle MiB | after sign-ins | most |\n|---|---|---|---|")
    rows: list[tuple[str, str, float]] = []
    for storage in ("SQLite", "Postgres and Redis"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            port = free_port()
            environment = site_environment(Path(folder), port=port, hash_threads=THREADS)
            if storage != "SQLite":
                environment |= private_servers(Path(folder), stack)
            prepare_site(environment, people=people, sessions=True)
            prepare(["-m", "perf.rig.seed", "--events", str(people)], environment)
            measure = sqlite_rows if storage == "SQLite" else postgres_rows
            rows += [(storage, *row) for row in measure(environment["DATABASE_URL"])]
            memory = memory_of(Path(folder, "serve.log"), port, environment, stack)
            say(f"| {storage} | {memory.idle:.0f} | {memory.later:.0f} | {memory.most:.0f} |")
    say("\n| storage | table | bytes a row, with its indexes |\n|---|---|---|")
    for storage, table, size in rows:
        say(f"| {storage} | `{table}` | {size:,.0f} |")
    return 0


def memory_of(log: Path, port: int, environment: dict[str, str], stack: ExitStack) -> Memory:
    """Return the memory of a worker that signs people in, as many at once as it has places for.

    Raises:
        StartError: The server broke, or refused somebody.
    """
    server = serve(log, port, environment, stack)
    idle, _ = held(server.pid)

    def sign_in(serial: int) -> int:
        known = {"email": email_of(serial), "password": PASSWORD}
        return httpx.post(f"http://127.0.0.1:{port}/api/v1/access/signin", json=known, timeout=60).status_code

    with ThreadPoolExecutor(THREADS * 2) as threads:
        if wrong := set(threads.map(sign_in, range(SIGN_INS))) - {200}:
            raise StartError(f"a sign-in was answered {wrong}")
    later, most = held(server.pid)
    return Memory(idle, later, most)


def held(server: int) -> tuple[float, float]:
    """Return what the processes of a server hold, and the sum of the most that each has held, in MiB."""
    now = most = 0
    for pid in process_tree(server):
        shares = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
        now += int(re.findall(r"^Pss:\s+(\d+) kB$", shares, re.MULTILINE)[0])
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        most += int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[0])
    return now / 1024, most / 1024


def sqlite_rows(url: str) -> Iterator[tuple[str, float]]:
    """Yield the bytes a row of each table, its indexes included."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        for table in TABLES:
            (size,) = database.execute(
                "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master WHERE tbl_name = ?)",
                (table,),
            ).fetchone()
            (rows,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - our own names
            yield table, each(table, size, rows)


def postgres_rows(url: str) -> Iterator[tuple[str, float]]:
    """Yield the bytes a row of each table, its indexes and its long values included."""
    with psycopg.connect(url) as database:
        for table in TABLES:
            size, rows = database.execute(
                # With all partitions, where a table has them: by itself it takes nothing then.
                f"SELECT COALESCE(sum(pg_total_relation_size(relid)), pg_total_relation_size('{table}')),"  # noqa: S608 - our own names
                f" (SELECT count(*) FROM {table}) FROM pg_partition_tree('{table}')"
            ).fetchone() or (0, 0)
            yield table, each(table, size, rows)


def each(table: str, size: int, rows: int) -> float:
    """Return the bytes of one row.

    Raises:
        StartError: There are too few for that to mean anything.
    """
    if rows < LEAST:
        raise StartError(f"{table} has {rows} rows: seed more people")
    return size / rows


if __name__ == "__main__":
    sys.exit(main())
