from django.db import migrations

from accounts import search
from ironauth.infrastructure.db import text_index
from ironauth.infrastructure.telemetry.logs import get_logger

#: Those of 0.4, which compared texts with their accents and folded each row that they found.
FORMER = ("accounts_user_search", "accounts_leaving_search")


def build(apps, schema_editor):
    """Store the text that people are searched by, and index it. Without the extension nothing fails: a check tells."""
    connection = schema_editor.connection
    for name in FORMER:  # first: each row that is filled would be written into them
        text_index.drop(connection, text_index.TextIndex(name, "", ()))
    text_index.store(connection, search.PEOPLE)
    missing = [index.name for index in search.INDEXES if not text_index.build(connection, index)]
    if missing and connection.vendor == "postgresql":
        get_logger().warning("people_search_without_index", remedy=search.REMEDY)


def drop(apps, schema_editor):
    for index in search.INDEXES:
        text_index.drop(schema_editor.connection, index)
    text_index.forget(schema_editor.connection, search.PEOPLE)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('accounts', '0034_kept_tokens'),
    ]

    operations = [
        migrations.RunPython(build, drop),
    ]
