"""Fill a site's Postgres with people, sessions and events by SQL; indexes are built after the rows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from perf.experiments import trail
from perf.experiments.people import loading as people_loading
from perf.rig.seed import USER_AGENT
from perf.rig.site_setup import prepare

SESSIONS_EACH: Final = 3
EVENTS_EACH: Final = 10
#: Bytes that a person takes with three sessions, and an event: with indexes, and what sorting and the log take.
PERSON_BYTES, EVENT_BYTES = 3_500, 500
_LEFT_FREE: Final = 10 * 2**30
#: A prime: whose session comes next has nothing to do with the order of people. One in ten is over for two days.
_SESSIONS: Final = """
INSERT INTO tokens_session (id, user_id, generation, secret, master_key_id, client_id, scope, epoch, created_at,
    authenticated_at, last_used_at, idle_expires_at, absolute_expires_at, revoked_at, revoke_reason, ip, user_agent)
SELECT (lpad(to_hex((extract(epoch FROM made) * 1000)::bigint), 12, '0') || '7' || right('00' || to_hex(i %% 4096), 3)
        || '8' || substr(m, 1, 15))::uuid,
    (lpad(to_hex(1700000000000 + person), 12, '0') || '70008000' || substr(md5(person::text), 1, 12))::uuid,
    1, decode(m || md5('t' || i), 'hex'), 'k1', 'ironauth', 'account', 0, made, made, made,
    CASE WHEN i %% 20 = 5 THEN ended ELSE now() + interval '5 days' END, now() + interval '10 days',
    CASE WHEN i %% 20 = 15 THEN ended END, CASE WHEN i %% 20 = 15 THEN 'signed_out' ELSE '' END,
    ('10.' || i / 65536 %% 256 || '.' || i / 256 %% 256 || '.' || i %% 256)::inet, %(agent)s
FROM (SELECT i, md5('s' || i) AS m, now() - interval '2 days' AS ended, 1 + i * 611953 %% %(people)s AS person,
        now() - interval '20 days' + i * (interval '17 days' / %(count)s) AS made
    FROM generate_series(1, %(count)s::bigint) AS i) AS opened
"""
_INDEXES: Final = """
SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
WHERE i.indrelid = to_regclass(%s) AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)
"""


def that_fit(people: int, free: int) -> int:
    """Return how many events there is room for, ten for each person at most.

    Args:
        people: How many people there are to be.
        free: Bytes of the disk.
    """
    return max(0, min(EVENTS_EACH * people, (free - _LEFT_FREE - PERSON_BYTES * people) // EVENT_BYTES))


def fill(database: Any, environment: Mapping[str, str], *, people: int, events: int) -> None:
    """Load people, three sessions for each, and events of this month and the next three.

    Args:
        database: A psycopg connection that commits by itself, to a site that has nobody yet.
        environment: Of the site.
        people: How many.
        events: How many, over all months.
    """
    people_loading.drop_search(database)
    people_loading.load(database, have=0, want=people)
    prepare(["manage.py", "search_index"], environment, limit_s=3_600)
    database.execute("SET session_replication_role = replica")  # no look-up of each session's person: they are right
    with without_indexes(database, "tokens_session"):
        database.execute(_SESSIONS, {"people": people, "count": SESSIONS_EACH * people, "agent": USER_AGENT})
    database.execute("SET session_replication_role = origin")
    months = _months(database)
    for name, bound in months:
        database.execute(f"ALTER TABLE {trail.TABLE} DETACH PARTITION {name}")
        year, month = (int(part) for part in name[-7:].split("_"))
        first = datetime(year, month, 1, tzinfo=UTC)
        with without_indexes(database, name):
            trail.load(database, first, first + timedelta(days=28), events // len(months), table=name)
        database.execute(f"ALTER TABLE {trail.TABLE} ATTACH PARTITION {name} {bound}")
    database.execute("VACUUM ANALYZE tokens_session")
    database.execute(f"ANALYZE {trail.TABLE}")
    database.execute("CHECKPOINT")


@contextmanager
def without_indexes(database: Any, table: str) -> Iterator[None]:
    """Drop the indexes of a table, but for those of its constraints, and build them again at the end.

    Ids come in their order, so that the primary key costs little as it is.

    Args:
        database: A psycopg connection that commits by itself.
        table: Its name.
    """
    found = database.execute(_INDEXES, [table]).fetchall()
    for index, _ in found:
        database.execute(f"DROP INDEX {index}")
    yield
    for _, definition in found:
        database.execute(definition)


def _months(database: Any) -> list[tuple[str, str]]:
    """Return the trail's months, and the bounds of each as ATTACH takes them."""
    found = database.execute(
        "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = to_regclass(%s) AND c.relname ~ '_p[0-9]' ORDER BY 1",
        [trail.TABLE],
    ).fetchall()
    return [(name, bound) for name, bound in found]
