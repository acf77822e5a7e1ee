"""``deploy/env.example`` names every variable that is read, and no other."""

import ast
import re
from pathlib import Path

import pytest

import ironauth.settings
from ironauth.config import hash_workers, table
from ironauth.config.environment import Environment
from ironauth.config.reference import files
from ironauth.config.table import LIMITS

SETTINGS = Path(ironauth.settings.__file__)
EXAMPLE = SETTINGS.parents[1] / "deploy" / "env.example"
LINE = re.compile(r"#?([A-Z][A-Z0-9_]+)=")


def _names_read() -> set[str]:
    """Return the first argument of every ``env.…("NAME")`` and ``os.environ.get("NAME")`` in the settings' modules."""
    names = set()
    files = [SETTINGS, *sorted((SETTINGS.parent / "config").rglob("*.py"))]
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
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
    assert set(listed) == set(table.SETTINGS)


def test_nothing_is_read_past_the_table() -> None:
    """A variable that a module reads by its name has an entry; an entry that something else reads is read there."""
    elsewhere = {setting.name for setting in table.SETTINGS.values() if setting.read_by}
    assert elsewhere <= _names_read() <= set(table.SETTINGS)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_what_is_generated_is_current(path: Path) -> None:
    """The example and the reference say what the table says."""
    assert path.read_text(encoding="utf-8") == files()[path], "run python -m ironauth.config.reference"


def test_defaults_of_what_is_read_elsewhere_are_those_used() -> None:
    """The numbers of hash workers have the defaults that the table states."""
    env = Environment({"IRONAUTH_HASH_WORKERS": "unix:/w"}, LIMITS)
    found = hash_workers.read(env, peppers={"k": b""})
    assert found is not None
    assert found.connections == table.SETTINGS["IRONAUTH_HASH_WORKER_CONNECTIONS"].default
    assert found.timeout_s == table.SETTINGS["IRONAUTH_HASH_WORKER_TIMEOUT_S"].default


def test_every_variable_is_explained() -> None:
    """Each variable, or the group of lines it stands in, has a comment above it."""
    for above, line in zip(_lines(), _lines()[1:], strict=False):
        if LINE.match(line):
            assert above.startswith("#"), line


def _comment_above(name: str) -> str:
    """Return the comment above a variable, or above the group of lines it stands in."""
    lines = _lines()
    at = next(number for number, line in enumerate(lines) if (match := LINE.match(line)) and match[1] == name)
    while LINE.match(lines[at]):
        at -= 1
    comment: list[str] = []
    while lines[at].startswith("# ") and not lines[at].startswith("# ---"):
        comment.insert(0, lines[at].removeprefix("# "))
        at -= 1
    return " ".join(comment)


def test_bounds_are_those_that_are_checked() -> None:
    """Every number's comment states the least and the most that the settings accept."""
    for name, limit in LIMITS.items():
        assert re.search(rf"\b{limit.least} to {limit.most}\b", _comment_above(name)), name


def test_no_secret_is_given() -> None:
    """The example holds no value for a secret: copied as it is, it does not start."""
    lines = _lines()
    assert "SECRET_KEY=" in lines
    assert "IRONAUTH_MASTER_KEYS=" in lines
