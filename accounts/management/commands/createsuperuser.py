"""``manage.py createsuperuser``: Django's, held to the password policy even without a terminal."""

import os
import sys
from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from accounts.users.models import User

PASSWORD = "DJANGO_SUPERUSER_PASSWORD"  # noqa: S105 - the name of Django's variable
EMAIL = "DJANGO_SUPERUSER_EMAIL"
REMEDY = f'set {PASSWORD} and use --noinput --email you@example.com (with make superuser, in ARGS="…")'


def _ask(prompt: str) -> str:
    """Ask on the terminal, but never whether to bypass the policy: no password matters more than this one."""
    return "n" if prompt.startswith("Bypass password validation") else input(prompt)


class Command(createsuperuser.Command):
    """Make a superuser."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Refuse a weak password of the environment, as the prompt refuses a typed one; then do as Django does.

        Raises ``CommandError`` with the reason, also where Django would end with success although it could not ask, or
        nobody could sign in with the result.
        """
        if options["interactive"]:
            if not (options.get("stdin") or sys.stdin).isatty():
                raise CommandError(f"There is no terminal to ask on: {REMEDY}")
        elif (password := os.environ.get(PASSWORD)) is None:
            raise CommandError(f"Nobody could sign in without a password: {REMEDY}")
        else:
            email = options["email"] or os.environ.get(EMAIL, "")
            try:
                validate_password(password, User(email=email))
            except ValidationError as refused:
                raise CommandError(f"{PASSWORD}: {' '.join(refused.messages)}") from refused
        createsuperuser.input = _ask  # type: ignore[attr-defined] # the module's own name comes before the builtin one
        return super().handle(*args, **options)
