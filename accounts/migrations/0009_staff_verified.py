"""Staff of before count as verified: until now the admin let them in without, and nobody is to be locked out."""

from typing import Any, ClassVar

from django.db import migrations
from django.db.models import Q

from ironauth.infrastructure.core import clock


def verify(apps: Any, schema_editor: Any) -> None:
    """Take the addresses of people who may open the admin for verified: a superuser, or an operator, let them in."""
    staff = apps.get_model("accounts", "User").objects.using(schema_editor.connection.alias)
    staff.filter(Q(is_staff=True) | Q(is_superuser=True), email_verified_at=None).update(email_verified_at=clock.now())


class Migration(migrations.Migration):
    """One statement; going back leaves them verified."""

    dependencies: ClassVar = [("accounts", "0008_deletion")]
    operations: ClassVar = [migrations.RunPython(verify, migrations.RunPython.noop)]
