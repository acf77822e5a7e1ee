"""Ask as staff do, on the site of the environment: ``python -m perf.experiments.people.asking --each 40``.

Prints what each question took, and the plans of its statements, as JSON.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import django

from perf.experiments.people.loading import DOMAINS, FIRST_NAMES
from perf.rig.plans import plans as plans_of

PAGE: Final = {"ordering": "-created_at", "page_size": 50}


class Person(NamedTuple):
    """Somebody who is searched for."""

    email: str
    first: str
    last: str


def questions(people: list[Person], draw: random.Random) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what staff ask, by name: filters, another choice each time."""

    def one() -> Person:
        return draw.choice(people)

    def letters(count: int) -> str:
        return "".join(draw.choice("qxyjwv") for _ in range(count))

    return {
        "a whole address": lambda: {"search": one().email},
        "seven characters of an address": lambda: {"search": one().email.partition("@")[0][-7:]},
        "a last name": lambda: {"search": one().last},
        "a first and a last name": lambda: (person := one()) and {"search": f"{person.first} {person.last}"},
        "four letters of a last name": lambda: {"search": one().last[1:5]},
        "a first name (1 in 40)": lambda: {"search": draw.choice(FIRST_NAMES)},
        "a domain (1 in 8)": lambda: {"search": draw.choice(DOMAINS)},
        "two letters": lambda: {"search": one().last[:2]},
        "letters that nobody has": lambda: {"search": letters(6)},
        "a last name among staff": lambda: {"search": one().last, "is_staff": True},
        "staff (1 in 10,000)": lambda: {"is_staff": True},
        "inactive people (1 in 100)": lambda: {"is_active": False},
        "a role (1 in 1,000)": lambda: {"role": "rare"},
        "a role (1 in 10)": lambda: {"role": "common"},
        "people being deleted": lambda: {"being_deleted": True},
    }


def ask(each: int) -> dict[str, Any]:
    """Return for each question the milliseconds of its runs, the rows found, and whether a statement walks a table."""
    from django.db import connection  # noqa: PLC0415 - needs django.setup()

    from accounts.admin import search  # noqa: PLC0415 - as above
    from accounts.staff import units  # noqa: PLC0415 - as above
    from accounts.users.models import User  # noqa: PLC0415 - as above

    draw = random.Random(1)
    people = [Person(*row) for row in _some(connection)]

    def in_admin() -> dict[str, Any]:
        return {"admin": draw.choice(people).last}

    def run(filters: dict[str, Any]) -> int:
        if "admin" in filters:
            found = search.people(User.objects.all(), filters["admin"]).order_by("-created_at", "-id")
            return len(found.select_related("pending_deletion")[:50])
        return len(units.users_page({**PAGE, **filters}).rows)

    seen = {}
    for name, choose in (questions(people, draw) | {"a last name, in the admin": in_admin}).items():
        run(choose())
        took, rows, plans = [], [], set()
        for number in range(each):
            filters = choose()
            began = time.perf_counter()
            rows.append(run(filters))
            took.append(1_000 * (time.perf_counter() - began))
            if number < 5:
                plans |= set(plans_of(connection, partial(run, filters)))
        seen[name] = {"ms": took, "rows": statistics.fmean(rows), "plans": sorted(plans)}
    return seen


def _some(connection: Any) -> list[tuple[str, str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT email, given_name, family_name FROM accounts_user TABLESAMPLE SYSTEM (1)"
            " WHERE is_active AND given_name <> '' ORDER BY md5(email) LIMIT 2000"
        )
        return list(cursor.fetchall()) or _any(cursor)


def _any(cursor: Any) -> list[tuple[str, str, str]]:
    cursor.execute("SELECT email, given_name, family_name FROM accounts_user WHERE given_name <> '' LIMIT 1000")
    return list(cursor.fetchall())


def main() -> int:
    """Ask, and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--each", type=int, default=40, help="runs of each question")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    sys.stdout.write(json.dumps(ask(options.each)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
