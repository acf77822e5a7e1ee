import django.db.models.deletion
import ironauth.infrastructure.core.clock
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0007_flags'),
    ]

    operations = [
        migrations.AlterField(
            model_name='emailtoken',
            name='purpose',
            field=models.CharField(choices=[('verify_email', 'Verify Email'), ('change_email', 'Change Email'), ('reset_password', 'Reset Password'), ('restore_account', 'Restore Account')], max_length=16),
        ),
        migrations.CreateModel(
            name='PendingDeletion',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name='pending_deletion', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('email', models.CharField(max_length=254)),
                ('email_verified_at', models.DateTimeField(null=True)),
                ('requested_at', models.DateTimeField(default=ironauth.infrastructure.core.clock.now)),
                ('due_at', models.DateTimeField(db_index=True)),
            ],
            options={
                'default_permissions': (),
            },
        ),
    ]
