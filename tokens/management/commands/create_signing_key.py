"""``manage.py create_signing_key``: what a new installation runs once, and may run again."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import IntegrityError

from tokens.key_rotation import create_first_keys


class Command(BaseCommand):
    """Make sure there is a signing key; print its kid."""

    help = "Create the active and the next signing key unless they exist; print the active key's kid."

    def handle(self, *args: Any, **options: Any) -> None:
        """Create what is missing; a second process that does the same at this moment wins or loses harmlessly."""
        try:
            kid = create_first_keys()
        except IntegrityError:
            kid = create_first_keys()
        self.stdout.write(kid)
