from django.db import migrations


class Migration(migrations.Migration):
    """Empty since ``0035``, whose indexes are in the place of those that were built here. No release had these."""

    dependencies = [
        ('accounts', '0029_staff_filters'),
    ]

    operations = []
