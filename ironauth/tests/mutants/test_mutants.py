"""Tests that the table of mutants is true of the tree as it is; ``make mutants`` tries the mutants themselves."""

import ast
from collections import Counter
from functools import cache

import pytest

from ironauth.tests.mutants.table import ROOT, Mutant, mutants

#: How many there are at least: what is dropped here is a promise that nobody holds any more.
LEAST = 180


@cache  # a file has several mutants, and a file of tests notices several
def _source(file: str) -> tuple[str, str]:
    """Return a file's text and its tree's."""
    text = (ROOT / file).read_text()
    return text, ast.dump(ast.parse(text))


@cache
def _functions(file: str) -> frozenset[str]:
    """Return the names of a file's classes and functions, at any depth."""
    return frozenset(
        node.name
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_there_are_as_many_as_are_promised() -> None:
    """A mutant leaves the table only with its bound, and each has a name of its own."""
    assert len(mutants()) >= LEAST
    assert [name for name, times in Counter((one.subject, one.name) for one in mutants()).items() if times > 1] == []


@pytest.mark.parametrize("mutant", mutants(), ids=lambda one: f"{one.subject}: {one.name}")
def test_a_mutant_can_be_applied(mutant: Mutant) -> None:
    """Its text stands in its file as often as the table says, and with the change the file is Python that differs."""
    source, tree = _source(mutant.file)
    changed = mutant.applied(source)
    assert "/tests/" not in mutant.file
    assert ast.dump(ast.parse(changed)) != tree


@pytest.mark.parametrize("mutant", mutants(), ids=lambda one: f"{one.subject}: {one.name}")
def test_its_tests_are_there(mutant: Mutant) -> None:
    """Each test that has to fail is a function of the file, by the name that pytest gives it."""
    assert mutant.tests
    for test in mutant.tests:
        file, *names = test.split("::")
        assert names
        assert {name.partition("[")[0] for name in names} <= _functions(file)


def test_a_text_that_is_gone_is_told() -> None:
    """A text that is not in the file, or stands there more often, cannot be changed unseen."""
    mutant = Mutant("a", "b", "c.py", "x", "y", ("t",))
    assert mutant.applied("x = 1") == "y = 1"
    for source in ("z = 1", "x = x"):
        with pytest.raises(ValueError, match="times, not 1"):
            mutant.applied(source)
