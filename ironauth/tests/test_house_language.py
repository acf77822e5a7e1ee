"""Rooms and words of the house: ceilings of what is too much today, which may only become lower."""

import ast
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
CEILINGS = Path(__file__).with_name("house_ceilings.json")
SEVERAL = 2  # arguments, from which a public function has to explain them (design, §5)
ROOM_LIMIT = 15  # modules in a folder, without __init__.py (design, §3)
TEXTS = {".py", ".html", ".txt", ".js", ".css", ".sh", ".conf", ".yaml", ".toml", ".md"}
NOT_OURS = {"CHANGELOG.md", "ironauth/tests/test_house_language.py", "docs/reference/words.md"}
#: Idioms that a reader of plain technical English stumbles over (design, §5).
IDIOMS = (
    "whoever", "whence", "whom", "for ever", "nobody's", "is not to be had", "says so", "its like", "besides",
)  # fmt: skip
#: Names that had a meaning for their author only, and have been replaced.
NAMES = (
    "inserted_together", "hold_back", "tell_id", "run_untold", "read_apart", "write_once", "write_together",
    "write_later", "raise_if_given_up", "stored_user", "stored_session", "even_time", "failure_shares", "FixedSelect",
    "ClientInfo", "Journey", "unseal_journey", "use_up", "NotingHandler", "PoliteServer",
    "say_farewell", "FAREWELL_S", "PatientFlow", "LeanCycle", "JoinedWrites", "CalmExporter", "leftovers",
    "token_answers", "try_it", "sign_on_ends", "KeepsReferred", "reader_may_leave",
)  # fmt: skip


def tracked() -> list[str]:
    """Return the names of all files of the repository that are there."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def ceilings(kind: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(CEILINGS.read_text())[kind]
    return found


def rooms() -> Counter[str]:
    """Return how many modules each folder of the product has."""
    return Counter(
        str(Path(name).parent)
        for name in tracked()
        if name.endswith(".py") and name.startswith(("ironauth/", "accounts/", "tokens/", "perf/"))
        if not {"tests", "migrations"} & set(Path(name).parts) and Path(name).name not in ("__init__.py", "conftest.py")
    )


def counted(words: tuple[str, ...], flags: re.RegexFlag) -> Counter[str]:
    """Return how often each of ``words`` stands in our texts."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", flags)
    found: Counter[str] = Counter()
    for name in tracked():
        if Path(name).suffix in TEXTS and name not in NOT_OURS and not re.search("/migrations/|^perf/results/", name):
            text = re.sub(r"\s+(?:#\s+)?", " ", (ROOT / name).read_text(encoding="utf-8", errors="replace"))
            found.update(word.lower() if flags else word for word in pattern.findall(text))
    return found


def test_a_room_has_about_fifteen_modules() -> None:
    """A folder with more is listed with its number: one more fails, and one less asks for a lower number."""
    assert {room: n for room, n in rooms().items() if n > ROOM_LIMIT} == ceilings("rooms")


@pytest.mark.parametrize(
    ("kind", "words", "flags"), [("idioms", IDIOMS, re.IGNORECASE), ("names", NAMES, re.RegexFlag(0))]
)
def test_banned_words_become_fewer(kind: str, words: tuple[str, ...], flags: re.RegexFlag) -> None:
    """A banned word appears as often as is listed; who removes one lowers the number in `house_ceilings.json`."""
    assert dict(counted(words, flags)) == ceilings(kind)


def own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    """Return what the function does itself, without the functions and classes in it."""
    found, waiting = [], list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


def lacks_a_section(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a docstring has no `Args:` for several arguments, or no `Raises:` for an error."""
    text = ast.get_docstring(function) or ""
    given = function.args
    names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    names |= {argument.arg for argument in (given.vararg, given.kwarg) if argument}
    explained = {name for group in re.findall(r"((?:``\w+``,? ?)+):", text) for name in re.findall(r"\w+", group)}
    several = len([name for name in names if not name.startswith("_")]) >= SEVERAL
    lacks_args = (several or bool(explained & names)) and re.search("^Args:", text, re.MULTILINE) is None
    raises = any(isinstance(node, ast.Raise) and node.exc is not None for node in own_nodes(function))
    named = re.search(r"\b[Rr]aises? (?:``|what |whatever )", text) is not None
    lacks_raises = (raises or named) and "Raises:" not in text and not text.startswith("Raise ")
    return lacks_args or lacks_raises


def test_docstrings_have_sections() -> None:
    """A public function of two or more arguments has `Args:`, and says in `Raises:` what it raises on purpose.

    Functions of modules, not methods: a framework fixes what views and Django's classes are given. For the same reason
    an argument that begins with an underscore does not count: it is there for the caller, and is not used. A summary
    that begins with "Raise" needs no `Raises:`. That `Args:` names every argument is ruff's D417.
    """
    lacking = [
        f"{name}: {node.name}"
        for name in tracked()
        if name.endswith(".py") and name.startswith(("ironauth/", "accounts/", "tokens/"))
        if not {"tests", "migrations", "conftest.py"} & set(Path(name).parts)
        for node in ast.parse((ROOT / name).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
        if lacks_a_section(node)
    ]
    assert not lacking


def test_errors_are_named_in_raises() -> None:
    """No docstring of the product, of a method either, names its errors in a form of its own."""
    named = [
        f"{name}: {node.name}"
        for name in tracked()
        if name.endswith(".py") and name.startswith(("ironauth/", "accounts/", "tokens/", "perf/"))
        if "Errors: " in (text := (ROOT / name).read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if re.search(r"\bErrors: ", ast.get_docstring(node) or "")
    ]
    assert not named
