"""What the system check says of the trail's table: that it is large and in one piece."""

from typing import Any, Final

from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, connections
from django.db.migrations.recorder import MigrationRecorder

from accounts.audit import partitions

MADE_BY: Final = ("accounts", "0031_audit_partitions")
REMEDY: Final = "Run manage.py partition_audit while everything serves: it reads the trail once, and writes none of it."


def check_partitions(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """Warn where the migration has left the trail in one table, because it is large.

    Args:
        app_configs: Django's.
        databases: The aliases of the databases that are checked.
        **kwargs: Django's.
    """
    return [
        CheckWarning(f"The audit trail of the database {alias!r} has no partitions", hint=REMEDY, id="ironauth.W004")
        for alias in databases or ()
        if _is_whole(connections[alias])
    ]


def _is_whole(connection: Any) -> bool:
    if connection.vendor != "postgresql":
        return False
    try:
        made = MADE_BY in MigrationRecorder(connection).applied_migrations()
        return made and not partitions.is_partitioned(connection)
    except DatabaseError:  # out of reach; another check's business
        return False
