"""``deploy/env.example`` names every variable that is read, and no other."""

import ast
import re
from pathlib import Path

import ironauth.settings

SETTINGS = Path(ironauth.settings.__file__)
EXAMPLE = SETTINGS.parents[1] / "deploy" / "env.example"
LINE = re.compile(r"#?([A-Z][A-Z0-9_]+)=")


def _names_read() -> set[str]:
    """Return the first argument of every ``env.…("NAME")`` and ``os.environ.get("NAME")`` in the settings."""
    names = set()
    for node in ast.walk(ast.parse(SETTINGS.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        source = ast.unparse(node.func.value)
        first = node.args[0]
        if source in ("env", "os.environ") and isinstance(first, ast.Constant) and isinstance(first.value, str):
            names.add(first.value)
    return names


def _lines() -> list[str]:
    return EXAMPLE.read_text(encoding="utf-8").splitlines()


def test_every_variable_is_listed_and_nothing_else() -> None:
    """The names in the example are exactly the names that the settings read, each once."""
    listed = [match[1] for line in _lines() if (match := LINE.match(line))]
    assert len(listed) == len(set(listed))
    assert set(listed) == _names_read()


def test_every_variable_is_explained() -> None:
    """Each variable, or the group of lines it stands in, has a comment above it."""
    for above, line in zip(_lines(), _lines()[1:], strict=False):
        if LINE.match(line):
            assert above.startswith("#"), line


def test_no_secret_is_given() -> None:
    """The example holds no value for a secret: copied as it is, it does not start."""
    lines = _lines()
    assert "SECRET_KEY=" in lines
    assert "IRONAUTH_MASTER_KEYS=" in lines
