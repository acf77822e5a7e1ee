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
_POSTGRES: Final = {
    "update": f"BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_refuse()",
    "delete": f"BEFORE DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_refuse()",
    "truncate": f"BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_refuse()",
}


def install(connection: Any) -> None:
    """Create the triggers, in place of those of the same names. Several statements; call it inside a transaction."""
    remove(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_FUNCTION)
        for name, rule in _rules(connection).items():
            cursor.execute(f"CREATE TRIGGER {TABLE}_{name} {rule}")


def remove(connection: Any, *names: str) -> None:
    """Drop the triggers of these names, all by default; one that is not there is no error.

    Args:
        connection: Django's connection to the database of the trail.
        *names: The names of rules, without the table's.
    """
    of_table = f" ON {TABLE}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in names or _rules(connection):
            cursor.execute(f"DROP TRIGGER IF EXISTS {TABLE}_{name}{of_table}")


def _rules(connection: Any) -> dict[str, str]:
    return _POSTGRES if connection.vendor == "postgresql" else _SQLITE
