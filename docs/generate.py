"""The pages of the reference that are written from the product itself, each time the site is built."""

import json
import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import django
from django.core.management import get_commands, load_command_class

_ROOT: Final = Path(__file__).resolve().parents[1]
#: Options that every command of Django's has.
_DJANGOS: Final = frozenset(
    {
        "--help", "--version", "--settings", "--traceback", "--no-color", "--skip-checks",
        "--verbosity", "--pythonpath", "--force-color",
    }
)  # fmt: skip
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def write_pages(folder: Path) -> None:
    """Write every generated page.

    Args:
        folder: Where they go.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings_test")
    django.setup()
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text("\n".join(page()) + "\n", encoding="utf-8")


def http_api() -> Iterator[str]:
    """Yield the lines of the page of the HTTP API, from the OpenAPI document."""
    document = json.loads((_ROOT / "ironauth" / "openapi.json").read_text(encoding="utf-8"))
    yield "# HTTP API\n"
    yield "Written from the OpenAPI document, which a server serves at `/api/schema`. `/api/docs` there has the same"
    yield "with forms to try it. Errors are problem details (RFC 9457): [error codes](errors.md).\n"
    for tag in document["tags"]:
        yield f"## {tag['name']}\n\n{tag['description']}.\n"
        for path, operations in document["paths"].items():
            for method in _METHODS:
                if tag["name"] in operations.get(method, {}).get("tags", ()):
                    yield from _operation(document, method, path, operations[method])


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {operation.get('summary', operation['operationId'])}\n"
    yield f"`{method.upper()} {path}`\n"
    if text := operation.get("description", ""):
        yield f"{text}\n"
    parameters = [_resolved(document, one) for one in operation.get("parameters", ())]
    if parameters:
        yield "| parameter | in | meaning |\n|---|---|---|"
        for one in parameters:
            yield f"| `{one['name']}` | {one['in']} | {_cell(one.get('description', ''))} |"
        yield ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield from _fields(document, kind, _resolved(document, content.get("schema", {})))
    yield "| answer | meaning |\n|---|---|"
    for status, answer in operation["responses"].items():
        yield f"| {status} | {_cell(_resolved(document, answer).get('description', ''))} |"
    yield ""


def _fields(document: dict[str, Any], kind: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield the table of a body's fields."""
    if not (properties := schema.get("properties")):
        return
    required = set(schema.get("required", ()))
    yield f"Body, `{kind}`:\n\n| field | type | meaning |\n|---|---|---|"
    for name, given in properties.items():
        field = _resolved(document, given)
        needed = "" if name in required else ", optional"
        yield f"| `{name}` | {_type(field)}{needed} | {_cell(field.get('description', ''))} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    """Return what a value is, in a word or two."""
    kind = schema.get("type", "value")
    named = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return f"{named} ({schema['format']})" if "format" in schema else named


def _resolved(document: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return what a reference names, or what is there itself."""
    if (reference := given.get("$ref")) is None:
        return given
    found: Any = document
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return dict(found)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def errors() -> Iterator[str]:
    """Yield the lines of the page of error codes."""
    import ironauth.urls  # noqa: F401, PLC0415 - loads the modules that define errors
    from ironauth.infrastructure.core.errors import DomainError  # noqa: PLC0415 - Django has to be set up first

    found = sorted({(one.code, one.status, one.title, one.detail) for one in _below(DomainError)})
    yield "# Error codes\n"
    yield "The `code` of a problem document. Programs judge the code; the `detail` is for people, and may change.\n"
    for code in sorted({one[0] for one in found}):
        yield f"## {code}\n"
        for _, status, title, detail in (one for one in found if one[0] == code):
            yield f"**{status}, {title}.** {detail}\n"


def _below(kind: type[Any]) -> Iterator[Any]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def audit_events() -> Iterator[str]:
    """Yield the lines of the page of the audit trail's events."""
    from accounts.audit.events import Event, Family  # noqa: PLC0415 - Django has to be set up first

    yield "# Audit events\n"
    yield "What `event` may be in the audit trail (`GET /api/v1/audit`, the admin, `manage.py audit_export`). A code"
    yield "never changes its meaning.\n"
    for family in Family:
        yield f"## {family.value}\n\n| event | words |\n|---|---|"
        yield from (f"| `{event.value}` | {event.words} |" for event in Event if event.family is family)
        yield ""


def commands() -> Iterator[str]:
    """Yield the lines of the page of commands, from what each says with ``--help``."""
    yield "# Commands\n"
    yield "Run as `.venv/bin/python manage.py COMMAND`, in a container as"
    yield "`/opt/ironauth/.venv/bin/python manage.py COMMAND`.\n"
    for name, application in sorted(get_commands().items()):
        where = application if isinstance(application, str) else application.name
        if where.split(".")[0] not in ("ironauth", "accounts", "tokens"):
            continue
        parser: ArgumentParser = load_command_class(where, name).create_parser("manage.py", name)
        yield f"## {name}\n\n{_cell(parser.description or '')}\n"
        options = [one for one in parser._actions if _DJANGOS.isdisjoint(one.option_strings)]  # noqa: SLF001 - no other way
        if options:
            yield "| argument | meaning |\n|---|---|"
            for one in options:
                words = ", ".join(f"`{word}`" for word in one.option_strings) or f"`{one.metavar or one.dest}`"
                yield f"| {words} | {_cell(str(one.help or '').replace('%(default)s', str(one.default)))} |"
            yield ""


PAGES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "http-api": http_api,
    "errors": errors,
    "audit-events": audit_events,
    "commands": commands,
}
