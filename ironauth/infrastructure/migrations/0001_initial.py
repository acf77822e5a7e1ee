"""The table of invalidations."""

from typing import ClassVar

from django.db import migrations, models

import ironauth.infrastructure.core.clock


class Migration(migrations.Migration):
    """Create ``infrastructure_invalidation``."""

    initial = True
    dependencies: ClassVar = []
    operations: ClassVar = [
        migrations.CreateModel(
            name="Invalidation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("tag", models.CharField(max_length=80)),
                ("created_at", models.DateTimeField(default=ironauth.infrastructure.core.clock.now)),
            ],
            options={"db_table": "infrastructure_invalidation"},
        ),
    ]
