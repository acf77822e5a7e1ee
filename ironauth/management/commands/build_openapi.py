"""``manage.py build_openapi [--check]``: the OpenAPI document, built once and served as a file.

drf-spectacular keeps state outside the generator and fails under concurrent requests (drf-spectacular#1123: 60 of
268), and the document depends on the code alone: so it is a committed file, and `make check` compares.
"""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from ironauth.pages import OPENAPI_FILE


def build() -> str:
    """Return the document's text.

    Raises:
        CommandError: The generator had to guess something.
    """
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]  # drf-spectacular is half annotated
    document = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]  # drf-spectacular is half annotated
    if GENERATOR_STATS:
        raise CommandError("The document is incomplete: add @extend_schema to the views named above")
    return json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"


class Command(BaseCommand):
    """Write ``ironauth/openapi.json``, or compare it with the code."""

    help = "Write ironauth/openapi.json from the code."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare ``--check`` and ``--file``."""
        parser.add_argument("--file", type=Path, default=OPENAPI_FILE, help="default: ironauth/openapi.json")
        parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is out of date")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Build, then write or compare. Raises ``CommandError`` when incomplete or, with --check, out of date."""
        text, file = build(), options["file"]
        if not options["check"]:
            file.write_text(text, encoding="utf-8")
            with ignore_broken_pipe(self.stdout):
                self.stdout.write(f"Wrote {file}.")
        elif not file.is_file() or file.read_text(encoding="utf-8") != text:
            raise CommandError(f"{file} does not match the code: run make openapi and commit it")
