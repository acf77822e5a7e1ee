"""The pages of the reference that are written from the product itself, each time the site is built."""

import json
import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import django
import error_pages
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
        _write(folder / f"{name}.md", page())
    of_codes = error_pages.each()
    (folder / "errors").mkdir(exist_ok=True)
    for file in (folder / "errors").iterdir():
        if file.stem not in of_codes:
            file.unlink()
    for place, lines in of_codes.items():
        _write(folder / "errors" / f"{place}.md", lines)


def _write(file: Path, lines: Iterable[str]) -> None:
    """Write a page, if it is another one than before: the site need not read it again."""
    text = "\n".join(lines) + "\n"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


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
    yield f"({error_pages.anchor(f'{method.upper()} {path}')})=\n"
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
    yield "| answer | meaning | codes |\n|---|---|---|"
    for status, answer in operation["responses"].items():
        codes = error_pages.links(document, status, answer)
        yield f"| {status} | {_cell(_resolved(document, answer).get('description', ''))} | {codes} |"
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


def metrics() -> Iterator[str]:
    """Yield the lines of the page of metrics, from what a process can count."""
    from ironauth.infrastructure.telemetry.metrics_catalogue import CATALOGUE  # noqa: PLC0415 - as above

    yield "# Metrics\n"
    yield "What `/metrics` shows ([how it is opened](../operate/metrics.md)). Every name begins with `ironauth_`, and a"
    yield "counter ends in `_total`.\n"
    yield "| metric | kind | labels | says |\n|---|---|---|---|"
    for name, one in CATALOGUE.items():
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"| `{name.removeprefix('ironauth_')}` | {one.kind} | {labels} | {_cell(one.help_text)} |"
    yield ""


def limits() -> Iterator[str]:
    """Yield the lines of the page of limits: bounds of settings, and throttles with the headers that tell of them."""
    from django.conf import settings  # noqa: PLC0415 - as above

    from accounts.lockout import rate_limits  # noqa: PLC0415 - as above
    from ironauth.config.table import SECTIONS  # noqa: PLC0415 - as above

    yield "# Limits\n"
    yield "What a request may be, and how often it may come. A refusal says when to come again (`Retry-After`).\n"
    yield "## Requests\n\n| what is bounded | answer |\n|---|---|"
    yield "| body of an API request, 64 KiB | 413 `body_too_large` |"
    yield "| header fields, 16 KiB or 100 of them | 431 `headers_too_large` |"
    yield "| time until a body is complete, 10 s | 408 `request_timeout` |\n"
    yield "## Rate limits\n"
    yield "Each rule counts in a window that slides. *told*: what answers say of it, the rule or how many are left.\n"
    yield "| rule | setting | default | window, s | told |\n|---|---|---|---|---|"
    rules = {
        rule.name + rule.setting: rule for rule in vars(rate_limits).values() if isinstance(rule, rate_limits.Rule)
    }
    for rule in sorted(rules.values()):
        default = getattr(settings, rule.setting)
        yield f"| `{rule.name}` | `{rule.setting}` | {default} | {rule.window_s} | {rule.told} |"
    yield "\n## Settings\n\n| setting | least | most | unit | reason |\n|---|---|---|---|---|"
    for section in SECTIONS:
        for one in section.settings:
            if one.limit is not None:
                bounds = f"{one.limit.least} | {one.limit.most} | {one.limit.unit}"
                yield f"| `{one.name}` | {bounds} | {_cell(one.limit.why)} |"
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
    "errors": error_pages.index,
    "audit-events": audit_events,
    "metrics": metrics,
    "limits": limits,
    "commands": commands,
}
