"""What the database does for a unit of work: its statements, caught as it runs, and the plan of each.

Postgres explains a statement by running it (``EXPLAIN (ANALYZE, BUFFERS)``), inside a transaction that is rolled
back. SQLite tells its plan without running it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from django.db import connection, transaction

_DATA: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")  # not BEGIN, SAVEPOINT and the like
_LONGEST_LINE: Final = 240  # characters kept of a line: a batch of ids tells nothing
#: How a plan says that it reads a whole table: Postgres' node, SQLite's without an index's help.
_WHOLE_TABLE: Final = re.compile(r"Seq Scan on (?P<postgres>\w+)|^\W*SCAN (?P<sqlite>\w+)", re.MULTILINE)
_DISCARDED: Final = re.compile(r"Rows Removed by (?:Filter|Join Filter|Index Recheck): (\d+)")
#: A line that begins a node: "->  Index Scan using some_index on some_table alias  (cost=...".
_NODE: Final = re.compile(
    r"^\s*(?:->\s+)?(?P<name>[A-Z][\w ]*?)(?: using \w+)?(?: on (?P<table>\w+)(?: \w+)?)?\s+\(cost=", re.MULTILINE
)


class Statement(NamedTuple):
    """One statement as it was sent to the driver."""

    sql: str
    parameters: Sequence[Any]


@contextmanager
def recorded() -> Iterator[list[Statement]]:
    """Collect the statements that this thread's connection runs meanwhile."""
    caught: list[Statement] = []

    def note(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.lstrip("( ").startswith(_DATA):
            caught.append(Statement(sql, tuple(parameters or ())))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(note):
        yield caught


@contextmanager
def undone() -> Iterator[None]:
    """Undo what is written meanwhile."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def plans_of(unit: Callable[[], Any]) -> list[tuple[Statement, str]]:
    """Run ``unit``, undo it, and return its statements with their plans, each as the table is without the others."""
    with undone(), recorded() as statements:
        unit()
    return [(statement, explain(statement)) for statement in statements]


def explain(statement: Statement) -> str:
    """Return the plan of one statement; what it wrote is undone."""
    with undone(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement.sql}", statement.parameters)
            lines = [str(line) for (line,) in cursor.fetchall()]
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.parameters)
            lines = _indented(cursor.fetchall())
    return shortened(lines)


def shortened(lines: Sequence[str]) -> str:
    """Return the lines of a plan as one text, without the far end of very long ones."""
    return "\n".join(_shortened(line) for line in lines)


def described(title: str, plans: Sequence[tuple[str, str]]) -> str:
    """Return a page for people: each statement (without its parameters) and its plan."""
    parts = [title]
    parts += [f"{_shortened(sql, 2_000)}\n\n{plan}" for sql, plan in plans]
    return "\n\n".join(parts) + "\n"


def whole_tables(plan: str) -> list[str]:
    """Return the tables that the plan reads from end to end."""
    return [found["postgres"] or found["sqlite"] for found in _WHOLE_TABLE.finditer(plan)]


def discarded(plan: str) -> int:
    """Return the most rows a node of a Postgres plan read in vain (0 of SQLite, which does not tell)."""
    return max((int(rows) for rows in _DISCARDED.findall(plan)), default=0)


def nodes(plan: str) -> str:
    """Return what a Postgres plan does in a few words, from the top: "Limit > Sort > Seq Scan on tokens_session"."""
    found = _NODE.finditer(plan)
    names = [node["name"] + (f" on {node['table']}" if node["table"] else "") for node in found]
    return " > ".join(names)


def cost(plan: str) -> float:
    """Return what the planner estimates for the whole of a Postgres plan, in its own unit."""
    found = re.search(r"\(cost=[\d.]+\.\.([\d.]+)", plan)
    return float(found[1]) if found else 0.0


def _indented(rows: Sequence[tuple[int, int, int, str]]) -> list[str]:
    """Return SQLite's rows (id, parent, unused, text) as an indented tree."""
    depth: dict[int, int] = {0: -1}
    for number, parent, _, _ in rows:
        depth[number] = depth[parent] + 1
    return [f"{'  ' * depth[number]}{text}" for number, _, _, text in rows]


def _shortened(line: str, longest: int = _LONGEST_LINE) -> str:
    return line if len(line) <= longest else f"{line[:longest]} ..."
