import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0033_waiting_tokens'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeptTokens',
            fields=[
                ('identity', models.OneToOneField(on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name='tokens', serialize=False, to='accounts.identity')),
                ('sealed', models.BinaryField()),
                ('master_key_id', models.CharField(editable=False, max_length=16)),
                ('scope', models.CharField(blank=True, max_length=2000)),
                ('expires_at', models.DateTimeField(null=True)),
                ('can_refresh', models.BooleanField()),
                ('kept_at', models.DateTimeField()),
                ('refreshing_until', models.DateTimeField(null=True)),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='accounts.upstreamprovider')),
            ],
            options={
                'verbose_name_plural': 'kept tokens',
                'default_permissions': (),
            },
        ),
    ]
