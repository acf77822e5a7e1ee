from django.db import OperationalError, migrations

from accounts.audit import checks, partitions
from ironauth.infrastructure.telemetry.logs import get_logger


def convert(apps, schema_editor):
    """Partition the trail's table where that takes seconds; a check tells how else it is done."""
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    try:
        done = not partitions.is_large(connection) and partitions.convert(connection)
    except OperationalError:  # others kept it locked: the upgrade goes on
        done = False
    if not done and not partitions.is_partitioned(connection):
        get_logger().warning("audit_trail_without_partitions", remedy=checks.REMEDY)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('accounts', '0030_search_indexes'),
    ]

    operations = [
        migrations.RunPython(convert, migrations.RunPython.noop),
    ]
