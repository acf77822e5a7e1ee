"""``manage.py collect_messages``: gather the texts people read, and compile their translations.

Django's ``makemessages`` and ``compilemessages`` with the options of this project: one catalogue for all applications,
no places in it, so that a moved line changes nothing. It needs GNU gettext; the compiled catalogues are committed,
because a server is installed from the sources alone.
"""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.core.management.commands import makemessages

#: What only staff or developers read stays English, and has no place in the catalogue.
LEFT_OUT = (
    "*/tests/*", "perf/*", "docs/*", "clients/*", "requirements/*", "deploy/*", ".venv*", "var/*", "staticfiles/*",
    "*/templates/admin/*", "accounts/admin/*", "tokens/admin/*", "*/infrastructure/admin/*", "accounts/transfer/*",
    "accounts/passwords/formats/*", "*/migrations/*", "accounts/users/models.py",
)  # fmt: skip


class _Collector(makemessages.Command):
    """Collects without guesses: a text that was changed is to be translated, not to look like an older one."""

    msgmerge_options = [*makemessages.Command.msgmerge_options, "--no-fuzzy-matching"]


class Command(BaseCommand):
    """Write ``ironauth/locale/``."""

    help = "Collect the texts people read into ironauth/locale/, and compile its translations."
    requires_system_checks = ()

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Do it for every language but English."""
        codes = [code for code, _ in settings.LANGUAGES if code != "en"]
        call_command(
            _Collector(), locale=codes, ignore_patterns=list(LEFT_OUT), no_location=True, add_location="never",
            no_wrap=True, no_obsolete=True, extensions=["html", "txt", "py"], verbosity=0,
        )  # fmt: skip
        call_command("compilemessages", locale=codes, ignore_patterns=[".venv*"], verbosity=0)
