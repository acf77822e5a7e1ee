"""The statements of the planner experiment, as the product sends them.

``python -m perf.experiments.planner.queries`` prints them.

It runs in the environment of a seeded database and prints JSON: for each query the statement with its parameters
filled in, for several people where it is about one.
"""

import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import django
import msgspec
from django.db import connection

from perf.rig import query_plans

VARIANTS = 40  # people (and moments) each query is asked about, where it is about one
TITLES = {
    "refresh": "refresh: a session with its user and roles",
    "sessions": "session list of a person with ten",
    "purge": "1,000 ended sessions, by id",
    "list-staff": "users: staff (0.1 %)",
    "list-role": "users of a role that 0.1 % have",
    "list-common": "users of a role that 10 % have",
    "search": "users: search for a whole address",
    "role-sessions": "live sessions of a role that 1 % have, counted",
    "created": "users who signed up in one week (1 %, side by side)",
    "name": "users of one name (1 %, scattered)",
    "admin": "admin: the sessions used last",
}


class Statements(msgspec.Struct):
    """What is printed: statements by query, each list of the same shape with other values."""

    queries: dict[str, list[str]]


def statements() -> Statements:
    """Build every query for several people of this database."""
    # Models exist only after django.setup().
    from accounts.staff import units as staff_units  # noqa: PLC0415 - as above
    from accounts.users.models import User  # noqa: PLC0415 - as above
    from ironauth.infrastructure.core import clock  # noqa: PLC0415 - as above
    from perf.rig.bulk_seed import NAMES  # noqa: PLC0415 - as above
    from tokens.sessions import queries as session_queries  # noqa: PLC0415 - as above
    from tokens.sessions import units as sessions  # noqa: PLC0415 - as above
    from tokens.sessions.models import Session  # noqa: PLC0415 - as above

    now, page = clock.now(), {"ordering": "-created_at", "page_size": 50}
    some = list(Session.objects.order_by("?").values_list("pk", "user__email_key", "user__created_at")[:VARIANTS])
    with connection.cursor() as cursor:
        cursor.execute("SELECT user_id FROM tokens_session GROUP BY 1 HAVING count(*) > 5 LIMIT %s", [VARIANTS])
        busy = [row[0] for row in cursor.fetchall()]
    due = now - timedelta(days=1)
    week = timedelta(days=7)
    asked: dict[str, list[Callable[[], Any]]] = {
        "refresh": [partial(session_queries.find, pk) for pk, _, _ in some],
        "sessions": [partial(sessions.live_sessions, user_id=user_id) for user_id in busy],
        "purge": [partial(_ended, due, pk) for pk, _, _ in some],
        "list-staff": [lambda: staff_units.users_page({**page, "is_staff": True})],
        "list-role": [lambda: staff_units.users_page({**page, "role": "thousandth"})],
        "list-common": [lambda: staff_units.users_page({**page, "role": "tenth"})],
        "search": [partial(staff_units.users_page, {**page, "search": key}) for _, key, _ in some],
        "role-sessions": [lambda: Session.objects.live(now).filter(user__groups__name="hundredth").count()],
        "created": [partial(list, User.objects.filter(created_at__range=(at - week, at)).order_by())
                    for _, _, at in some],
        "name": [partial(list, User.objects.filter(name=f"Robin {number:02d}").order_by()) for number in range(NAMES)],
        "admin": [lambda: list(Session.objects.select_related("user").order_by("-last_used_at", "-pk")[:100])],
    }  # fmt: skip
    return Statements({name: [_text(query) for query in queries[:VARIANTS]] for name, queries in asked.items()})


def _ended(before: datetime, after: UUID) -> list[UUID]:
    """Find what ``purge_batch`` finds."""
    from tokens.purge import DEFAULT_BATCH  # noqa: PLC0415 - needs django.setup()
    from tokens.sessions.models import Session  # noqa: PLC0415 - needs django.setup()

    due = Session.objects.over(before).filter(pk__gt=after).order_by("pk")
    return list(due.values_list("pk", flat=True)[:DEFAULT_BATCH])


def _text(query: Callable[[], Any]) -> str:
    """Run a query and return its first statement with the values filled in; what follows only adds roles to a page."""
    with query_plans.recorded() as caught:
        query()
    with connection.cursor() as cursor:
        text: str = cursor.mogrify(caught[0].sql, caught[0].parameters)
    return text


def main() -> int:
    """Print the statements as JSON."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    sys.stdout.write(msgspec.json.encode(statements()).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
