"""How Postgres answers what a piece of code asks: the plan of each statement that it sends."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

_PLANNED: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")  # SAVEPOINT and the like have no plan


def plans(connection: Any, run: Callable[[], Any]) -> Iterable[str]:
    """Return the plan of each statement that ``run`` sends, its nodes from the outermost on.

    Args:
        connection: Django's connection to Postgres.
        run: Is called once.
    """
    sent: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sent.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        run()
    for sql, params in sent:
        if sql.startswith(_PLANNED):
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
                (found,) = cursor.fetchone()
            yield " > ".join(_nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


def walked(plan: str, tables: Iterable[str]) -> list[str]:
    """Return which of ``tables``, or of their partitions, a plan reads from end to end.

    Args:
        plan: As ``plans`` returns it.
        tables: Names.
    """
    scanned = [node.rpartition(" on ")[2] for node in plan.split(" > ") if "Seq Scan on " in node]
    return [one for one in scanned if any(one == table or one.startswith(f"{table}_p2") for table in tables)]


def _nodes(plan: dict[str, Any]) -> Iterable[str]:
    place = plan.get("Index Name") or plan.get("Relation Name")
    yield f"{plan['Node Type']} on {place}" if place else plan["Node Type"]
    for below in plan.get("Plans", ()):
        yield from _nodes(below)
