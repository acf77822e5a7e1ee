"""Triggers by which the database itself keeps the audit trail append-only, whatever program writes to it.

They are lost when a migration makes SQLite build the table anew, as most changes of a column do. Such a migration has
to `install` them again at its end. Installing twice is harmless.
"""

from typing import Any, Final

TABLE: Final = "accounts_auditevent"
#: Days for which nobody can delete an event. Afterwards the purge may, and the database cannot tell the purge from
#: anybody else. One day less than the smallest IRONAUTH_AUDIT_KEEP_DAYS, because clocks differ.
LOCKED_DAYS: Final = 29
_REFUSAL: Final = f"{TABLE} is append-only"

_SQLITE: Final = {
    "update": f"BEFORE UPDATE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
    "delete": f"BEFORE DELETE ON {TABLE} "
    f"WHEN OLD.at >= strftime('%Y-%m-%d %H:%M:%f', 'now', '-{LOCKED_DAYS} days') "
    f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
    # INSERT OR REPLACE deletes without asking the trigger above.
    "replace": f"BEFORE INSERT ON {TABLE} WHEN EXISTS (SELECT 1 FROM {TABLE} WHERE id = NEW.id) "  # noqa: S608 - a constant
    f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
}
_FUNCTION: Final = f"""
CREATE OR REPLACE FUNCTION {TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < clock_timestamp() - interval '{LOCKED_DAYS} days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'restrict_violation';
END $$
"""
_TRUNCATE: Final = f"BEFORE TRUNCATE ON {{}} FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_refuse()"
_POSTGRES: Final = {
    "update": f"BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_refuse()",
    "delete": f"BEFORE DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_refuse()",
    "truncate": _TRUNCATE.format(TABLE),
}


def install(connection: Any) -> None:
    """Create the triggers, in place of those of the same names. Several statements; call it inside a transaction.

    Postgres gives those that ask for each row to the table's partitions, but not the one against TRUNCATE.
    """
    remove(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_FUNCTION)
        for name, rule in _rules(connection).items():
            cursor.execute(f"CREATE TRIGGER {TABLE}_{name} {rule}")
    for partition in _partitions(connection):
        install_on(connection, partition)


def install_on(connection: Any, partition: str) -> None:
    """Create the trigger that a partition does not have from its table.

    Args:
        connection: Django's connection to the database of the trail.
        partition: The name of the partition.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TRIGGER {TABLE}_truncate {_POSTGRES['truncate'].replace(f' ON {TABLE} ', f' ON {partition} ')}"
        )


def remove(connection: Any, *names: str) -> None:
    """Drop the triggers of these names, all by default; one that is not there is no error.

    Args:
        connection: Django's connection to the database of the trail.
        *names: The names of rules, without the table's.
    """
    is_postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        for name in names or _rules(connection):
            cursor.execute(f"DROP TRIGGER IF EXISTS {TABLE}_{name}{f' ON {TABLE}' if is_postgres else ''}")
            if name == "truncate":
                for partition in _partitions(connection):
                    cursor.execute(f"DROP TRIGGER IF EXISTS {TABLE}_{name} ON {partition}")


def _rules(connection: Any) -> dict[str, str]:
    return _POSTGRES if connection.vendor == "postgresql" else _SQLITE


def _partitions(connection: Any) -> list[str]:
    """Return the names of the table's partitions; none on SQLite, and before there are any."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(%s)", [TABLE])
        return [name for (name,) in cursor.fetchall()]
