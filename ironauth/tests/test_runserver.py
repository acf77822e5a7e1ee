"""``manage.py runserver``."""

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


def test_djangos_development_server_is_refused() -> None:
    """``runserver`` would serve another stack; whatever is typed after it, one line says what to run."""
    for arguments in ([], ["8001"], ["0.0.0.0:80"], ["--noreload", "8001"]):
        with pytest.raises(CommandError, match=r"^Django's development server .*: use make run, or manage.py serve$"):
            call_command("runserver", *arguments)
