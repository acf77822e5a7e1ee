"""``manage.py createsuperuser``: Django's, held to the password policy without a terminal too."""

import os
from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from accounts.models import User

PASSWORD = "DJANGO_SUPERUSER_PASSWORD"  # noqa: S105 - the name of Django's variable
EMAIL = "DJANGO_SUPERUSER_EMAIL"


class Command(createsuperuser.Command):
    """Make a superuser."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Refuse a weak password of the environment, as the prompt refuses a typed one; then do as Django does.

        Raises ``CommandError`` with the reason. Without a password the account has none, and one is set later.
        """
        password = None if options["interactive"] else os.environ.get(PASSWORD)
        if password is not None:
            email = options["email"] or os.environ.get(EMAIL, "")
            try:
                validate_password(password, User(email=email))
            except ValidationError as refused:
                raise CommandError(f"{PASSWORD}: {' '.join(refused.messages)}") from refused
        return super().handle(*args, **options)
