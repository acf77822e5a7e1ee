from django.db import migrations, models

from ironauth.infrastructure.db.operations import AddIndexMeanwhile


class Migration(migrations.Migration):
    """Find the sessions that act for an organisation; built while the table is read and written."""

    atomic = False

    dependencies = [("tokens", "0034_active_organization")]

    operations = [
        AddIndexMeanwhile(
            model_name="session",
            index=models.Index(
                condition=models.Q(("organization_id__isnull", False)),
                fields=["organization_id"],
                name="tokens_session_organization",
            ),
        ),
    ]
