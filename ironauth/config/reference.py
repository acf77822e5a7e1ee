"""Write what follows from the table: ``env.example``, the reference, ``declared``, the chart's names of settings."""

import json
import re
import textwrap
from pathlib import Path

from ironauth.config.table import SECTIONS
from ironauth.config.table.setting import Setting

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 118  # characters of a comment
CHART = ROOT / "deploy" / "helm" / "ironauth" / "values.schema.json"
#: Settings that the chart makes of values of its own, or that mean nothing in a container.
OF_THE_CHART = frozenset(
    {
        "ALLOWED_HOSTS", "DEBUG", "IRONAUTH_ENV_FILE", "IRONAUTH_HASH_THREADS", "IRONAUTH_ISSUER",
        "IRONAUTH_MAIL_DELIVERY", "IRONAUTH_PERF_ENDPOINTS", "IRONAUTH_PROJECT", "IRONAUTH_SERVE_PORT",
        "IRONAUTH_TRUSTED_PROXIES",
    }
)  # fmt: skip
#: What the OpenTelemetry SDK reads by itself.
_OF_THE_SDK = ("OTEL_SERVICE_NAME", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG")
_TYPES = {
    "switch": "`0` or `1`",
    "whole": "whole number",
    "number": "number",
    "text": "text",
    "words": "list, separated by commas",
}
_PYTHON_TYPES = {
    "switch": "bool",
    "whole": "int",
    "number": "float",
    "choice": "str",
    "text": "str",
    "words": "list[str]",
}
_EXAMPLE_HEAD = """\
# Written by `python -m ironauth.config.reference`. Every variable IronAuth reads, with its unit and default. Copy the
# lines you change to the environment of `manage.py serve`, or to var/env beside the code (mode 0600;
# IRONAUTH_ENV_FILE names another file). A real environment variable wins over the file. A commented line shows the
# default or an example; required ones stop the start when they are missing. A value that is impossible or insecure
# stops it too, and numbers have the bounds stated here. Booleans are 1 or 0 (or true/false, yes/no, on/off). A file
# that other users may read stops the start.
"""
_PAGE_HEAD = """\
# Settings

Written by `python -m ironauth.config.reference` from `ironauth/config/table/`; a test keeps it current.

All settings are environment variables, or lines of `var/env` (mode 0600). A missing, malformed or insecure value stops
the start in one line that names the variable and the remedy. Bounds are inclusive.
"""
_DECLARATIONS_HEAD = '''\
"""Names and types of the settings in the table, for type checkers; written by ``ironauth.config.reference``."""

from datetime import datetime

from ironauth.config.hash_workers import HashWorkerSettings

'''


def env_example() -> str:
    """Return the text of ``deploy/env.example``."""
    lines = []
    for section in SECTIONS:
        lines += ["", f"# {'-' * 64} {section.title}"]
        for setting in section.settings:
            lines += [f"# {line}" for line in _text(setting)]
            lines.append(f"{'' if setting.required else '#'}{setting.name}={_shown(setting)}")
    return _EXAMPLE_HEAD + "\n".join(lines) + "\n"


def page() -> str:
    """Return the text of the reference page."""
    lines = []
    for section in SECTIONS:
        lines += ["", f"## {section.title[0].upper()}{section.title[1:]}"]
        for setting in section.settings:
            lines += ["", f"### `{setting.name}`", "", *_paragraphs(setting), "", f"- Type: {_type(setting)}"]
            if shown := _shown(setting):
                lines.append(f"- {'Example' if setting.example else 'Default'}: `{shown}`")
            if setting.limit is not None:
                lines.append(f"- Bounds: {setting.limit.least} to {setting.limit.most} {setting.limit.unit}")
                lines.append(f"- Reason of the bounds: {setting.limit.why}")
            if setting.read_by:
                lines.append(f"- Read by: {setting.read_by}")
            if setting.refused:
                lines.append(f"- Stops the start: {setting.refused}")
    return _PAGE_HEAD + "\n".join(lines) + "\n"


def declarations() -> str:
    """Return the module that tells type checkers the names and types of Django's settings."""
    lines = [
        f"{setting.name}: {setting.type or _PYTHON_TYPES[setting.kind]}"
        for section in SECTIONS
        for setting in section.settings
        if setting.exported and not setting.read_by
    ]
    return _DECLARATIONS_HEAD + "\n".join(lines) + "\n"


def chart_schema() -> str:
    """Return the chart's schema with the names that its value ``settings`` may have: no secret, and none of its own."""
    names = [setting.name for section in SECTIONS for setting in section.settings if not setting.secret]
    listed = json.dumps([name for name in names if name not in OF_THE_CHART] + list(_OF_THE_SDK))
    written = CHART.read_text(encoding="utf-8")
    return re.sub(r'(?<="propertyNames": \{"enum": )\[[^\]]*\]', listed, written)


def files() -> dict[Path, str]:
    """Return what each generated file has to contain."""
    return {
        ROOT / "deploy" / "env.example": env_example(),
        ROOT / "docs" / "reference" / "settings.md": page(),
        ROOT / "ironauth" / "config" / "declared.py": declarations(),
        CHART: chart_schema(),
    }


def _text(setting: Setting) -> list[str]:
    text = _bounded(setting)
    return [
        line
        for part in text.splitlines()
        for line in ([part] if part.startswith("  ") else textwrap.wrap(part, WIDTH - 2, break_on_hyphens=False))
    ]


def _paragraphs(setting: Setting) -> list[str]:
    parts = _bounded(setting).splitlines()
    return [f"\n    {part.strip()}\n" if part.startswith("  ") else part for part in parts]


def _bounded(setting: Setting) -> str:
    if setting.limit is None:
        return setting.text
    return setting.text.replace("{least}", str(setting.limit.least)).replace("{most}", str(setting.limit.most))


def _shown(setting: Setting) -> str:
    default = setting.default
    if setting.example or callable(default):
        return setting.example
    if isinstance(default, bool):
        return str(int(default))
    return ",".join(default) if isinstance(default, tuple) else str(default)


def _type(setting: Setting) -> str:
    return ", ".join(f"`{one}`" for one in setting.choices) if setting.choices else _TYPES[setting.kind]


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
