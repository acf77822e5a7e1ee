"""``manage.py runserver``: refused, because Django's development server is not the stack that is served."""

from argparse import ArgumentParser
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    """Say what to run instead."""

    help = "Not available: use make run, or manage.py serve."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what people type after ``runserver``, so that they get the remedy and not the usage."""
        parser.add_argument("anything", nargs="*")
        for option in ("--noreload", "--nothreading", "--nostatic", "--insecure", "--ipv6"):
            parser.add_argument(option, action="store_true")

    def handle(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise ``CommandError``, always: pools, lanes and time limits live in the asynchronous server alone."""
        raise CommandError("Django's development server has no pools or lanes: use make run, or manage.py serve")
