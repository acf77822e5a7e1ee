"""A process that runs units of work on one database when told: JSON lines in, JSON lines out, until its input ends.

``python -m perf.experiments.scale.worker`` in the environment of the database. The experiments start one for each
database, so that several sizes can be measured in turns.
"""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import msgspec

from perf.rig import query_plans


class Answer(msgspec.Struct):
    """What was measured: ns of each run, and how many did not do what they should."""

    ns: list[int] = []
    failed: int = 0
    tokens: list[str] = []
    plans: dict[str, list[tuple[str, str]]] = {}
    facts: dict[str, int] = {}


class Order(msgspec.Struct):
    """What to do, to which operations, and how often."""

    do: str
    operations: list[str] = []
    count: int = 0


def _read_into_memory() -> None:
    """Read SQLite's whole file, as it is stated: hosts of virtual machines take file pages back that rest a while.

    Without it a run of a million users was measured that waited for the disk: p50 of a token in no cache 0.33 ms for
    0.20, and Postgres, which keeps its pages itself, as ever.
    """
    from django.db import connection  # noqa: PLC0415 - needs django.setup()

    if connection.vendor != "sqlite":
        return
    piece = bytearray(1 << 20)  # bytes
    with Path(str(connection.settings_dict["NAME"])).open("rb", buffering=0) as file:
        while file.readinto(piece):
            pass


class Worker:
    """Carries out orders."""

    def __init__(self) -> None:
        # Models exist only after django.setup().
        from perf.experiments.scale.units import Scenes  # noqa: PLC0415 - as above

        self._scenes = Scenes(seed=7)
        self._orders: dict[str, Callable[[Order], Answer]] = {
            "meet": self._meet,
            "run": self._run,
            "purge": self._purge,
            "walk": self._walk,
            "plans": self._plans,
            "tokens": lambda order: Answer(tokens=self._scenes.tokens(order.count)),
            "facts": self._facts,
        }

    def carry_out(self, order: Order) -> Answer:
        """Do what the order says; a ``KeyError`` names one that is not known."""
        _read_into_memory()
        gc.collect()
        gc.disable()  # as in a server between two collections: a collection of the sample would be a slow unit
        try:
            return self._orders[order.do](order)
        finally:
            gc.enable()

    def _meet(self, order: Order) -> Answer:
        self._scenes.keep_ended()
        self._scenes.meet()
        return Answer()

    def _run(self, order: Order) -> Answer:
        with asyncio.Runner() as runner:
            return runner.run(self._run_all(order.operations[0], order.count))

    async def _run_all(self, operation: str, count: int) -> Answer:
        """Run an operation on the database pool, as views do, one after the other."""
        from ironauth.infrastructure.db.unit_of_work import database  # noqa: PLC0415 - needs django.setup()

        answer, scenes, pool = Answer(), self._scenes, database()
        for _ in range(count):
            steps = scenes.steps(operation)
            began = time.perf_counter_ns()
            results = [await (pool.write if step.write else pool.read)(step.unit, **step.arguments) for step in steps]
            answer.ns.append(time.perf_counter_ns() - began)
            answer.failed += not scenes.accept(operation, results)
        if scenes.opened:
            await pool.write(scenes.sign_out)
        return answer

    def _purge(self, order: Order) -> Answer:
        """Measure batches, on this thread's own connection as the command has it; refill the table when it is empty."""
        from perf.experiments.scale.units import PURGED  # noqa: PLC0415 - needs django.setup()

        answer, scenes = Answer(), self._scenes
        while len(answer.ns) < order.count:
            began = time.perf_counter_ns()
            deleted = scenes.purge()
            elapsed = time.perf_counter_ns() - began
            if deleted == PURGED:
                answer.ns.append(elapsed)
            else:  # the end of the table
                _postgres("VACUUM tokens_session")  # first: what comes back finds the room of what went
                scenes.restore()
                _postgres("ANALYZE tokens_session")
        return answer

    def _walk(self, order: Order) -> Answer:
        """Measure complete purge runs that find nothing to delete."""
        from tokens.purge import purge_expired  # noqa: PLC0415 - needs django.setup()

        answer = Answer()
        for _ in range(order.count):
            began = time.perf_counter_ns()
            answer.failed += bool(purge_expired(keep_s=10 * 365 * 86_400).sessions)
            answer.ns.append(time.perf_counter_ns() - began)
        return answer

    def _plans(self, order: Order) -> Answer:
        answer = Answer()
        for operation in order.operations:
            units = [self._scenes.purge] if operation == "purge" else self._scenes.steps(operation)
            found = [plan for unit in units for plan in query_plans.plans_of(unit)]
            answer.plans[operation] = [(statement.sql, plan) for statement, plan in found]
        self._scenes.restore()
        return answer

    def _facts(self, order: Order) -> Answer:
        """Return how many updates of sessions touched an index (Postgres), and the size of the database in bytes."""
        from django.db import connection  # noqa: PLC0415 - needs django.setup()

        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
                return Answer(facts={"bytes": cursor.fetchone()[0]})
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(
                "SELECT pg_database_size(current_database()), n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                " WHERE relname = 'tokens_session'"
            )
            return Answer(facts=dict(zip(("bytes", "updates", "hot"), cursor.fetchone(), strict=True)))


def _postgres(statement: str) -> None:
    """Do what autovacuum would after so many deletions, where there is one."""
    from django.db import connection  # noqa: PLC0415 - needs django.setup()

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement)


def main() -> int:
    """Answer orders from standard input until it ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever logs goes to standard error
    django.setup()
    worker = Worker()
    orders: Any = msgspec.json.Decoder(Order)
    for line in sys.stdin.buffer:
        answers.write(msgspec.json.encode(worker.carry_out(orders.decode(line))) + b"\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
