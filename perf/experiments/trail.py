"""The audit trail on Postgres: what an event takes up, what partitioning and dropping a month cost, what filters do."""

import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import psycopg

from accounts.audit.agents import shortened
from ironauth.tests.services import PrivatePostgres
from perf.findings import Finding, Table, at_most
from perf.lab import Lab
from perf.rig.processes import free_port
from perf.rig.seed import USER_AGENT
from perf.rig.site_setup import installed, prepare, prepare_site, site_environment

HYPOTHESIS = (
    "An event takes at most 350 bytes with its indexes, since an index stores each value once. A month is dropped in "
    "less than a second however many events it has. A table in one piece is partitioned while events are added, "
    "and no event waits longer than a lock may take."
)
TABLE: Final = "accounts_auditevent"  # as in accounts.audit.partitions, which cannot be imported without a site
BEFORE, OTHER = f"{TABLE}_before", f"{TABLE}_other"
LARGE, QUICK = 1_000_000, 50_000
WANTED_BYTES: Final = 350.0
WANTED_DROP_S: Final = 1.0
WANTED_PAGE_MS: Final = 10.0
WANTED_WAIT_S: Final = 1.0
EACH: Final = 40
#: A session of a person leaves three events; one in twenty is a failure without a session, one in 5,000 is rare.
_INSERT: Final = f"""
INSERT INTO {TABLE} (id, at, event, outcome, actor_id, user_id, session_id, address, user_agent, request_id, details)
SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(m, 1, 3) || '8'
        || substr(m, 4, 15))::uuid, at,
    CASE WHEN i %% 5000 = 0 THEN 'role_given' WHEN i %% 3 = 0 THEN 'sign_out' ELSE 'sign_in' END,
    CASE WHEN i %% 20 = 0 THEN 'failure' ELSE 'success' END,
    CASE WHEN i %% 20 = 0 THEN NULL ELSE person END, person,
    CASE WHEN i %% 20 = 0 THEN NULL ELSE md5('s' || i / 3)::uuid END,
    ('10.' || h %% 250 || '.' || (h / 250) %% 250 || '.' || (h / 62500) %% 250)::inet, %(agent)s, m,
    CASE WHEN i %% 20 = 0 THEN '{{"reason": "wrong_password"}}'::jsonb ELSE '{{"method": "password"}}'::jsonb END
FROM (SELECT i, %(since)s::timestamptz + i * (%(until)s::timestamptz - %(since)s::timestamptz) / %(count)s AS at,
        md5('e' || i) AS m, abs(hashint8(i / 3 %% (%(count)s / 20))) AS h,
        md5('p' || i / 3 %% (%(count)s / 20))::uuid AS person
    FROM generate_series(0, %(count)s::bigint - 1) AS i) AS made
"""  # noqa: S608 - constants
_SIZE: Final = "SELECT pg_table_size(%s), pg_indexes_size(%s), (SELECT count(*) FROM {})"


def measure(lab: Lab) -> Finding:
    """Fill the table as it was, partition it, fill a month, ask, and drop the month."""
    count = lab.size or (QUICK if lab.quick else LARGE)
    with installed():
        options = ("-c", "shared_buffers=1GB", "-c", "max_wal_size=8GB", "-c", "fsync=on")
        postgres = lab.stack.enter_context(PrivatePostgres(lab.folder / "postgres", free_port(), *options))
    environment = site_environment(lab.folder, port=free_port(), hash_threads=1) | {"DATABASE_URL": postgres.url}
    prepare_site(environment, people=0)
    with psycopg.connect(postgres.url, autocommit=True) as database:
        _in_one_piece(database)
        now = datetime.now(UTC)
        began = datetime(now.year - (now.month == 1), (now.month - 2) % 12 + 1, 1, tzinfo=UTC)
        load(database, began, now, count)
        before = _bytes(database, TABLE)
        lab.say(f"one table: {sum(before):.0f} bytes an event")
        with _adding(postgres.url) as waits:
            started = time.perf_counter()
            prepare(["manage.py", "partition_audit"], environment, limit_s=3_600)
            converted_s = time.perf_counter() - started
        lab.say(f"partitioned in {converted_s:.1f} s, the longest wait of {len(waits)} events {max(waits):.3f} s")
        month, first, end = _next_month(database)
        load(database, first, end, count)
        after = _bytes(database, month)
        lab.say(f"a month: {sum(after):.0f} bytes an event")
        asked = _ask(environment)
        started = time.perf_counter()
        database.execute(f"DROP TABLE {month}")
        dropped_s = time.perf_counter() - started
    costs = {"converted_s": converted_s, "longest_wait_s": max(waits), "dropped_s": dropped_s}
    return finding(count, before, after, costs, asked)


def _in_one_piece(database: Any) -> None:
    """Make the table what it was before it had partitions; the triggers are left out, as nothing is to be changed."""
    database.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {OTHER}")
    database.execute(f"DROP TABLE {OTHER}")
    database.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {BEFORE}")
    database.execute(f"DROP TABLE {TABLE}")
    database.execute(f"ALTER TABLE {BEFORE} RENAME TO {TABLE}")
    for (name,) in database.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", [TABLE]).fetchall():
        database.execute(f"ALTER INDEX {name} RENAME TO {name.removesuffix('_before')}")
    database.execute(f"DROP TRIGGER IF EXISTS {TABLE}_truncate ON {TABLE}")


def load(database: Any, since: datetime, until: datetime, count: int, *, table: str = TABLE) -> None:
    """Insert events, spread evenly over a time, of a twentieth as many people.

    Args:
        database: A psycopg connection that commits by itself.
        since: The time of the first event.
        until: A time after the last one.
        count: How many events.
        table: The trail's, or one that is to be a partition of it.
    """
    values = {"since": since, "until": until, "count": count, "agent": shortened(USER_AGENT)}
    database.execute(_INSERT.replace(TABLE, table, 1), values)
    database.execute(f"VACUUM ANALYZE {table}")


def _bytes(database: Any, table: str) -> tuple[float, float]:
    """Return the bytes an event takes in a table, and in its indexes."""
    rows, indexes, count = database.execute(_SIZE.format(table), [table, table]).fetchone()
    return rows / count, indexes / count


def _next_month(database: Any) -> tuple[str, datetime, datetime]:
    """Return the first month that has no event yet, and its bounds."""
    (name,) = database.execute(
        "SELECT min(inhrelid::regclass::text) FROM pg_inherits"
        " WHERE inhparent = to_regclass(%s) AND inhrelid::regclass::text ~ '_p[0-9]'",
        [TABLE],
    ).fetchone()
    year, month = (int(part) for part in name[-7:].split("_"))
    return name, datetime(year, month, 1, tzinfo=UTC), datetime(year, month, 28, tzinfo=UTC)


@contextmanager
def _adding(url: str) -> Iterator[list[float]]:
    """Add an event every 5 ms meanwhile, as a serving site does; yield the seconds that each took."""
    waits: list[float] = []
    ended = threading.Event()

    def add() -> None:
        now = "lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')"
        made = f"({now} || '70008000' || substr(md5(random()::text), 1, 12))::uuid"
        values = f"{made}, clock_timestamp(), 'sign_in', 'success', NULL, NULL, NULL, NULL, '', '', '{{}}'"
        with psycopg.connect(url, autocommit=True) as other:
            while not ended.wait(0.005):
                began = time.perf_counter()
                other.execute(f"INSERT INTO {TABLE} SELECT {values}")
                waits.append(time.perf_counter() - began)

    thread = threading.Thread(target=add)
    thread.start()
    try:
        yield waits
    finally:
        ended.set()
        thread.join()


def _ask(environment: Mapping[str, str]) -> dict[str, list[float]]:
    printed = prepare(["-m", "perf.experiments.trail"], environment).splitlines()
    found: dict[str, list[float]] = json.loads(next(line for line in reversed(printed) if line.startswith("{")))
    return found


def main() -> int:
    """Ask for pages of the trail on the site of the environment, and print how many ms each took, as JSON."""
    import django  # noqa: PLC0415 - nothing else here needs it

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    from accounts.audit import queries  # noqa: PLC0415 - needs django.setup()
    from accounts.audit.models import AuditEvent  # noqa: PLC0415 - needs django.setup()

    draw = random.Random(1)
    some = AuditEvent.objects.filter(session_id__isnull=False).order_by("-id")
    chosen = list(some.values_list("user_id", "session_id", "address")[:20_000:100])
    questions: dict[str, Any] = {
        "the newest": dict,
        "a person's": lambda: {"user": draw.choice(chosen)[0]},
        "about or by a person": lambda: {"person": draw.choice(chosen)[0]},
        "a session's": lambda: {"session": draw.choice(chosen)[1]},
        "from an address": lambda: {"network": f"{draw.choice(chosen)[2]}/32"},
        "sign-ins": lambda: {"event": "sign_in"},
        "failures (1 in 20)": lambda: {"outcome": "failure"},
        "a rare event (1 in 5,000)": lambda: {"event": "role_given"},
        "an event that never happened": lambda: {"event": "user_deleted"},
        "wrong passwords (1 in 20)": lambda: {"cause": "wrong_password"},
        "a person who has none": lambda: {"user": "00000000-0000-7000-8000-000000000000"},
    }
    seen: dict[str, list[float]] = {}
    for name, choose in questions.items():
        for number in range(EACH + 1):
            filters = {"page_size": 50, **choose()}
            began = time.perf_counter()
            queries.page(filters)
            if number:
                seen.setdefault(name, []).append(1_000 * (time.perf_counter() - began))
    sys.stdout.write(json.dumps(seen) + "\n")
    return 0


def finding(
    count: int,
    before: tuple[float, float],
    after: tuple[float, float],
    costs: Mapping[str, float],
    asked: Mapping[str, list[float]],
) -> Finding:
    """Return the tables and what was promised.

    Args:
        count: Events of the table in one piece, and of the month.
        before: Bytes an event in the table in one piece, and in its indexes.
        after: The same of the month.
        costs: Seconds.
        asked: Milliseconds of each page, by question.
    """
    tables = (("one piece", before), ("a month", after))
    rows = [[name, *(f"{part:.0f}" for part in (*one, sum(one)))] for name, one in tables]
    pages = [
        [name, f"{statistics.median(times):.2f}", f"{statistics.quantiles(times, n=20)[-1]:.2f}"]
        for name, times in asked.items()
    ]
    slowest = max(asked, key=lambda name: statistics.median(asked[name]))
    return Finding(
        [
            Table(f"Bytes an event, {count:,} events", ["table", "rows", "indexes", "together"], rows),
            Table(f"A page of fifty among {2 * count:,} events", ["events", "p50 ms", "p95 ms"], pages),
        ],
        [
            at_most("an event of a month, indexes included", WANTED_BYTES, sum(after), " bytes"),
            at_most(f"dropping a month of {count:,} events", WANTED_DROP_S, costs["dropped_s"], " s"),
            at_most(
                "longest wait of an event meanwhile",
                WANTED_WAIT_S,
                costs["longest_wait_s"],
                " s",
            ),
            at_most(f"slowest page ({slowest}), p50", WANTED_PAGE_MS, statistics.median(asked[slowest]), " ms"),
        ],
        notes=[f"Partitioning the table in one piece took {costs['converted_s']:.1f} s, Python's start included."],
        data={"before": before, "after": after, **costs, "asked": dict(asked)},
    )


if __name__ == "__main__":
    sys.exit(main())
