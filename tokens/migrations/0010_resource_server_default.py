"""The database itself says of a client that it is no resource server: the release before 0009 makes clients without."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tokens', '0009_resource_servers'),
    ]

    operations = [
        migrations.AlterField(
            model_name='oauthclient',
            name='resource_server',
            field=models.BooleanField(db_default=False, default=False, help_text='May ask about all access tokens, not only its own: an API of yours.'),
        ),
    ]
