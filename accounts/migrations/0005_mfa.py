"""Second factors: apps that make one-time codes, recovery codes, and the right to take them away."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ironauth.infrastructure.core.clock
import ironauth.infrastructure.core.ids


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_mail")]

    operations = [
        migrations.AlterModelOptions(
            name="user",
            options={
                "ordering": ("-created_at", "-id"),
                "permissions": (("reset_mfa", "Can take away second factors"),),
                "verbose_name": "user",
                "verbose_name_plural": "users",
            },
        ),
        migrations.CreateModel(
            name="TotpFactor",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        primary_key=True,
                        related_name="totp",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("sealed", models.BinaryField()),
                ("master_key_id", models.CharField(max_length=16)),
                ("created_at", models.DateTimeField(default=ironauth.infrastructure.core.clock.now)),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("last_step", models.BigIntegerField(default=0)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="RecoveryCode",
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
                ("selector", models.CharField(max_length=4)),
                ("encoded", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField(default=ironauth.infrastructure.core.clock.now)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DB_CASCADE,
                        related_name="recovery_codes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("user", "selector"), name="accounts_recovery_code_selector")
                ],
            },
        ),
    ]
