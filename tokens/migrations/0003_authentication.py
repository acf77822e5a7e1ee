"""Sessions say when, and how, the person last proved who they are.

Sessions of before, and those that the release before still opens while both run, count as proved long ago: they step
up before they do what needs it.
"""

import datetime

from django.db import migrations, models

import ironauth.infrastructure.core.clock

LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Migration(migrations.Migration):
    dependencies = [("tokens", "0002_room_for_refreshes"), ("accounts", "0005_mfa"), ("infrastructure", "0003_once")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="authenticated_at",
            field=models.DateTimeField(db_default=LONG_AGO, default=ironauth.infrastructure.core.clock.now),
        ),
        migrations.AddField(
            model_name="session",
            name="amr",
            field=models.CharField(db_default="pwd", default="pwd", max_length=64),
        ),
    ]
