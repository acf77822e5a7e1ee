from django.db import migrations


class Migration(migrations.Migration):
    """The indexes that people were searched by in 0.4; those of ``0035`` are in their place."""

    dependencies = [
        ('accounts', '0029_staff_filters'),
    ]

    operations = []
