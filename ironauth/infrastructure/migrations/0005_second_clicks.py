"""What a use has led to, for the second of two clicks."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Add ``led_to`` to what was used up; the previous version leaves it empty."""

    dependencies: ClassVar = [("infrastructure", "0004_idempotency_keys")]
    operations: ClassVar = [
        migrations.AddField(model_name="usedonce", name="led_to", field=models.UUIDField(null=True)),
    ]
