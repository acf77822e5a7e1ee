"""The table of what was used up."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create ``infrastructure_usedonce``."""

    dependencies: ClassVar = [("infrastructure", "0002_throttle_counts")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="UsedOnce",
            fields=[
                ("key", models.CharField(max_length=80, primary_key=True, serialize=False)),
                ("expires_at", models.BigIntegerField(db_index=True)),
            ],
            options={"db_table": "infrastructure_usedonce"},
        ),
    ]
