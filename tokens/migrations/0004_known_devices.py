import django.db.models.deletion
import ironauth.infrastructure.core.clock
import ironauth.infrastructure.core.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tokens', '0003_authentication'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='KnownDevice',
            fields=[
                ('id', models.UUIDField(default=ironauth.infrastructure.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('place', models.CharField(max_length=32)),
                ('device', models.CharField(blank=True, default='', max_length=32)),
                ('seen_at', models.DateTimeField(default=ironauth.infrastructure.core.clock.now)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
    ]
