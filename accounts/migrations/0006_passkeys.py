"""Passkeys: people's WebAuthn credentials."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ironauth.infrastructure.core.clock
import ironauth.infrastructure.core.ids


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_mfa")]

    operations = [
        migrations.CreateModel(
            name="Passkey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ironauth.infrastructure.core.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("credential_id", models.BinaryField(max_length=1023, unique=True)),
                ("public_key", models.BinaryField()),
                ("sign_count", models.PositiveBigIntegerField()),
                ("name", models.CharField(max_length=150)),
                ("transports", models.CharField(blank=True, max_length=64)),
                ("backup_eligible", models.BooleanField()),
                ("backed_up", models.BooleanField()),
                ("aaguid", models.UUIDField()),
                ("created_at", models.DateTimeField(default=ironauth.infrastructure.core.clock.now)),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="passkeys",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
    ]
