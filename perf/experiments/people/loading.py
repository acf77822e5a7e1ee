"""Fill a site's Postgres with people by one statement: a million take seconds, not the hour that requests would."""

from typing import Any, Final

FIRST_NAMES: Final = (
    "Anna", "Maria", "Peter", "Carla", "Ivan", "Olga", "Luca", "Emma", "Noah", "Mia", "Paul", "Lena", "Jonas", "Sofia",
    "Felix", "Clara", "Hugo", "Alba", "Leo", "Nora", "Adam", "Zoe", "Karl", "Ines", "Omar", "Lucia", "David", "Eva",
    "Tom", "Ida", "Jan", "Rosa", "Erik", "Vera", "Max", "Julia", "Ben", "Paula", "Tim", "Greta",
)  # fmt: skip
DOMAINS: Final = [f"{name}.example" for name in ("post", "mail", "web", "inbox", "north", "south", "work", "town")]
_SYLLABLES: Final = [first + second for first in "bdfghklmnprstvwz" for second in ("a", "e", "o", "er", "in", "al")]
LEAVING: Final = 1_000  # people being deleted
STAFF: Final = 10_000  # one person in so many
INACTIVE: Final = 100
RARE, COMMON = 1_000, 10  # one person in so many has the role
#: ``d`` are the bytes of a digest, so that the same number is always the same person.
_INSERT: Final = """
WITH given AS (SELECT %(firsts)s::text[] AS firsts, %(domains)s::text[] AS domains, %(syllables)s::text[] AS parts),
hashed AS (SELECT i, decode(md5(i::text), 'hex') AS d FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i),
named AS (
    SELECT i, '2023-11-14'::timestamptz + i * interval '1 s' AS made, domains[1 + i % cardinality(domains)] AS domain,
        firsts[1 + get_byte(d, 0) % cardinality(firsts)] AS first,
        initcap(parts[1 + get_byte(d, 1) % cardinality(parts)] || parts[1 + get_byte(d, 2) % cardinality(parts)]
            || parts[1 + get_byte(d, 3) % cardinality(parts)]) AS last
    FROM hashed, given
),
addressed AS (SELECT *, lower(first) || '.' || lower(last) || '.' || i || '@' || domain AS address FROM named)
INSERT INTO accounts_user (id, email, email_key, password, is_active, is_staff, is_superuser, session_epoch,
    created_at, updated_at, email_verified_at, name, given_name, family_name, preferred_username)
SELECT (lpad(to_hex(1700000000000 + i), 12, '0') || '70008000' || substr(md5(i::text), 1, 12))::uuid,
    address, address, '!', i % %(inactive)s <> 1, i % %(staff)s = 0, false, 0,
    made, made, made, first || ' ' || last, first, last, lower(first) || i
FROM addressed
"""
_ROLE: Final = """
INSERT INTO accounts_user_groups (user_id, group_id)
SELECT id, (SELECT id FROM auth_group WHERE name = %(role)s) FROM accounts_user
WHERE ('x' || right(id::text, 6))::bit(24)::int %% %(one_in)s = 0 ON CONFLICT DO NOTHING
"""
_LEAVING: Final = """
INSERT INTO accounts_pendingdeletion (user_id, email, requested_at, due_at)
SELECT id, 'left.' || email, now(), now() FROM accounts_user ORDER BY id LIMIT %(leaving)s ON CONFLICT DO NOTHING
"""


def load(database: Any, *, have: int, want: int) -> None:
    """Insert people until there are ``want``, with roles, and a thousand who are being deleted.

    Args:
        database: A psycopg connection that commits by itself.
        have: How many there are.
        want: How many there are to be.
    """
    values = {
        "first": have + 1,
        "last": want,
        "firsts": list(FIRST_NAMES),
        "domains": DOMAINS,
        "syllables": _SYLLABLES,
        "inactive": INACTIVE,
        "staff": STAFF,
    }
    statement = _INSERT.replace(" % ", " %% ")
    database.execute(statement, values)
    for role, one_in in (("rare", RARE), ("common", COMMON)):
        database.execute("INSERT INTO auth_group (name) VALUES (%s) ON CONFLICT DO NOTHING", [role])
        database.execute(_ROLE, {"role": role, "one_in": one_in})
    database.execute(_LEAVING, {"leaving": LEAVING})
    database.execute("VACUUM ANALYZE")


def search_indexes(database: Any) -> dict[str, str]:
    """Return the index that each table is searched by, by what the index is made of.

    Args:
        database: A psycopg connection.
    """
    found = database.execute("SELECT tablename, indexname FROM pg_indexes WHERE indexdef LIKE '%gin_trgm_ops%'")
    return dict(found.fetchall())


def drop_search(database: Any) -> None:
    """Drop these indexes: rows come faster without them, and ``manage.py search_index`` builds them afterwards.

    Args:
        database: A psycopg connection that commits by itself.
    """
    for index in search_indexes(database).values():
        database.execute(f"DROP INDEX {index}")
