"""The tables of the throttles: counts in sliding windows, and consecutive failures."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create ``infrastructure_throttlewindow`` and ``infrastructure_throttlefailures``."""

    dependencies: ClassVar = [("infrastructure", "0001_initial")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="ThrottleWindow",
            fields=[
                ("key", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("slot", models.BigIntegerField()),
                ("count", models.IntegerField()),
                ("previous", models.IntegerField()),
                ("expires_at", models.BigIntegerField(db_index=True)),
            ],
            options={"db_table": "infrastructure_throttlewindow"},
        ),
        migrations.CreateModel(
            name="ThrottleFailures",
            fields=[
                ("key", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("failures", models.IntegerField()),
                ("retry_at", models.FloatField()),
                ("known_until", models.BigIntegerField()),
                ("expires_at", models.BigIntegerField(db_index=True)),
            ],
            options={"db_table": "infrastructure_throttlefailures"},
        ),
    ]
