from django.db import migrations

from accounts.search import REMEDY
from ironauth.infrastructure.db import text_index
from ironauth.infrastructure.telemetry.logs import get_logger

#: Those that ``0030`` built before it was emptied: they compared texts with their accents.
FORMER = ("accounts_user_search", "accounts_leaving_search")
#: As they are in this release: a later one may search by other columns, which are not there yet when this runs.
PEOPLE = text_index.TextIndex(
    "accounts_user_parts", "accounts_user", ("email_key", "name", "given_name", "family_name", "preferred_username"),
    stored="search_text",
)  # fmt: skip
LEAVING = text_index.TextIndex("accounts_leaving_parts", "accounts_pendingdeletion", ("email",))
INDEXES = (PEOPLE, LEAVING)


def build(apps, schema_editor):
    """Store the text that people are searched by, and index it. Without the extension nothing fails: a check tells."""
    connection = schema_editor.connection
    for name in FORMER:  # first: each row that is filled would be written into them
        text_index.drop(connection, text_index.TextIndex(name, "", ()))
    text_index.store(connection, PEOPLE)
    missing = [index.name for index in INDEXES if not text_index.build(connection, index)]
    if missing and connection.vendor == "postgresql":
        get_logger().warning("people_search_without_index", remedy=REMEDY)


def drop(apps, schema_editor):
    for index in INDEXES:
        text_index.drop(schema_editor.connection, index)
    text_index.forget(schema_editor.connection, PEOPLE)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('accounts', '0034_kept_tokens'),
    ]

    operations = [
        migrations.RunPython(build, drop),
    ]
