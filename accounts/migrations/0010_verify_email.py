"""The right to say whether an e-mail address is verified. No statement: Django makes its row when migrations are done."""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    """Options of the model alone; the release before does not ask for the right."""

    dependencies: ClassVar = [("accounts", "0009_staff_verified")]
    operations: ClassVar = [
        migrations.AlterModelOptions(
            name="user",
            options={
                "ordering": ("-created_at", "-id"),
                "permissions": (
                    ("reset_mfa", "Can take away second factors"),
                    ("verify_email", "Can say whether an e-mail address is verified"),
                ),
                "verbose_name": "user",
                "verbose_name_plural": "users",
            },
        ),
    ]
