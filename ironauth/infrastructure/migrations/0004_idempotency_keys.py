"""The table of requests that are not done twice."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create ``infrastructure_idempotencykey``."""

    dependencies: ClassVar = [("infrastructure", "0003_once")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("claim", models.UUIDField()),
                ("fingerprint", models.BinaryField(max_length=32)),
                ("master_key_id", models.CharField(max_length=16)),
                ("answer", models.BinaryField(null=True)),
                ("expires_at", models.BigIntegerField(db_index=True)),
            ],
            options={"db_table": "infrastructure_idempotencykey"},
        ),
    ]
