from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tokens', '0004_known_devices'),
    ]

    operations = [
        migrations.AlterField(
            model_name='session',
            name='revoke_reason',
            field=models.CharField(blank=True, choices=[('signed_out', 'Signed out'), ('ended_by_user', 'Ended by user'), ('ended_by_staff', 'Ended by staff'), ('reuse', 'Reuse')], default='', max_length=16),
        ),
    ]
