from django.db import migrations

from accounts import search
from ironauth.infrastructure.db import text_index
from ironauth.infrastructure.telemetry.logs import get_logger


def build(apps, schema_editor):
    """Build the indexes that people are searched by. Without the extension nothing fails: a check tells of it."""
    connection = schema_editor.connection
    missing = [index.name for index in search.INDEXES if not text_index.build(connection, index)]
    if missing and connection.vendor == "postgresql":
        get_logger().warning("people_search_without_index", remedy=search.REMEDY)


def drop(apps, schema_editor):
    for index in search.INDEXES:
        text_index.drop(schema_editor.connection, index)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('accounts', '0029_staff_filters'),
    ]

    operations = [
        migrations.RunPython(build, drop),
    ]
