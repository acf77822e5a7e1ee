from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0006_passkeys'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='must_change_password',
            field=models.BooleanField(db_default=False, default=False, help_text='Signing in is refused until the person has set another password by e-mail.', verbose_name='must change password'),
        ),
        migrations.AddField(
            model_name='user',
            name='password_flagged_at',
            field=models.DateTimeField(blank=True, editable=False, help_text='At a sign-in the present password was in the list of breached ones. A new password clears it.', null=True, verbose_name='password found in a breach at'),
        ),
    ]
