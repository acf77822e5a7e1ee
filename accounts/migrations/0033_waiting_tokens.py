from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0032_keep_tokens'),
    ]

    operations = [
        migrations.AddField(
            model_name='upstreamsignin',
            name='tokens',
            field=models.BinaryField(null=True),
        ),
    ]
