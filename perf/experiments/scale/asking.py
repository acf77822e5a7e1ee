"""Ask what people and staff ask, on the site of the environment: ``python -m perf.experiments.scale.asking``.

Prints what each question took, and the plans of its statements, as JSON. Each is asked twice for the same person: the
first time may read the disk, the second finds everything in memory.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import django

from perf.rig.plans import plans as plans_of

PURGED: Final = 100
_DRAWN: Final = 20_000
_PLANS: Final = 3  # runs whose plans are kept: others may choose another way for rarer words
_FEW: Final = 4  # what staff ask is asked so many times less
_PEOPLE: Final = """
SELECT s.id, s.user_id, s.generation, s.secret, s.master_key_id, u.email, u.email_key, u.family_name
FROM tokens_session s TABLESAMPLE SYSTEM ({percent}) JOIN accounts_user u ON u.id = s.user_id
WHERE s.revoked_at IS NULL AND s.idle_expires_at > now() + interval '1 hour' AND u.is_active LIMIT {drawn}
"""
_ROWS: Final = "SELECT greatest(reltuples, 1) FROM pg_class WHERE relname = 'tokens_session'"
_SEEN: Final = "SELECT user_id FROM {table} WHERE user_id IS NOT NULL ORDER BY id DESC LIMIT {drawn}"


class Person(NamedTuple):
    """Somebody with a session, and what is needed to use it."""

    session_id: Any
    user_id: Any
    generation: int
    secret: bytes
    master_key_id: str
    email: str
    email_key: str
    last: str


class Asked(NamedTuple):
    """A question: what chooses a person for it, and what asks; ``many``: people's own, asked more often."""

    choose: Callable[[], Any]
    run: Callable[[Any], bool]
    many: bool


def questions(connection: Any, draw: random.Random) -> dict[str, Asked]:
    """Return what is asked, by name. Each ``run`` tells whether it got what it is for."""
    from django.db import transaction  # noqa: PLC0415 - all of these need django.setup()

    from accounts.audit import queries as audit  # noqa: PLC0415 - as above
    from accounts.staff import units as staff  # noqa: PLC0415 - as above
    from accounts.users import queries as users  # noqa: PLC0415 - as above
    from ironauth.infrastructure.core import clock  # noqa: PLC0415 - as above
    from tokens import purge  # noqa: PLC0415 - as above
    from tokens.sessions import queries as sessions  # noqa: PLC0415 - as above
    from tokens.sessions import refresh_token  # noqa: PLC0415 - as above
    from tokens.sessions.refresh import units as refresh  # noqa: PLC0415 - as above
    from tokens.sessions.refresh.queries import Outcome  # noqa: PLC0415 - as above

    people = _people(connection)
    rotated: dict[Any, int] = {}
    first_half = sorted(person.session_id for person in people)[: len(people) // 2]
    with connection.cursor() as cursor:
        cursor.execute(_SEEN.format(table="accounts_auditevent", drawn=_DRAWN))
        in_trail = [user for (user,) in cursor.fetchall()]

    def rotate(who: Person) -> bool:
        generation = rotated.get(who.session_id, who.generation)
        rotated[who.session_id] = generation + 1
        token = refresh_token.mint(
            session_id=who.session_id, generation=generation, secret=who.secret, master_key_id=who.master_key_id
        )
        parsed = refresh_token.parse(token)
        return parsed is not None and refresh.rotate(parsed=parsed).outcome is Outcome.ROTATED

    def staffs(filters: dict[str, Any]) -> bool:
        return bool(staff.users_page({"ordering": "-created_at", "page_size": 50, **filters}).rows)

    def purged(after: Any) -> bool:
        due = clock.now() - timedelta(seconds=purge.SESSION_KEEP_S)
        with transaction.atomic():
            deleted, _ = purge.purge_batch(due, after=after, batch=PURGED)
            transaction.set_rollback(True)
        return deleted > 0

    def one() -> Person:
        return draw.choice(people)

    return {
        "session of an unknown token": Asked(
            one, lambda who: sessions.live_account(session_id=who.session_id, user_id=who.user_id, epoch=0) is not None,
            many=True,
        ),
        "refresh": Asked(one, rotate, many=True),
        "sign-in: the account of an address": Asked(
            one, lambda who: users.credentials_of_email(who.email_key) is not None, many=True
        ),
        "own session list": Asked(one, lambda who: bool(sessions.live_sessions(user_id=who.user_id)), many=True),
        "staff: the list of people": Asked(dict, staffs, many=False),
        "staff: search for a last name": Asked(lambda: {"search": one().last}, staffs, many=False),
        "staff: search for a part of an address": Asked(
            lambda: {"search": one().email.partition("@")[0][-10:]}, staffs, many=False
        ),
        "trail: events of a person": Asked(
            lambda: draw.choice(in_trail), lambda who: bool(audit.page({"page_size": 50, "user": who}).rows), many=True
        ),
        "trail: first page": Asked(dict, lambda _: bool(audit.page({"page_size": 50}).rows), many=False),
        f"purge: a batch of {PURGED} sessions": Asked(lambda: draw.choice(first_half), purged, many=False),
    }  # fmt: skip


def ask(each: int, seed: int) -> dict[str, Any]:
    """Return for each question the milliseconds of its runs, how many failed, and the plans of its statements.

    Args:
        each: About how many people.
        seed: Of the choice of people.
    """
    from django.db import connection  # noqa: PLC0415 - needs django.setup()

    draw, seen = random.Random(seed), {}
    for name, asked in questions(connection, draw).items():
        asked.run(asked.choose())
        took: dict[str, list[float]] = {"first": [], "again": []}
        failed = 0
        for _ in range(each if asked.many else each // _FEW):
            chosen = asked.choose()
            for times in took.values():
                began = time.perf_counter()
                failed += not asked.run(chosen)
                times.append(1_000 * (time.perf_counter() - began))
        plans: set[str] = set()
        for _ in range(_PLANS):
            chosen = asked.choose()
            plans |= set(plans_of(connection, partial(asked.run, chosen)))
        seen[name] = {**took, "failed": failed, "plans": sorted(plans)}
    return seen


def _people(connection: Any) -> list[Person]:
    with connection.cursor() as cursor:
        cursor.execute(_ROWS)
        percent = min(100.0, 100 * 2 * _DRAWN / cursor.fetchone()[0])
        cursor.execute(_PEOPLE.format(percent=percent, drawn=_DRAWN))
        return [Person(*row)._replace(secret=bytes(row[3])) for row in cursor.fetchall()]


def main() -> int:
    """Ask, and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--each", type=int, default=400, help="people that each question is about")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    sys.stdout.write(json.dumps(ask(options.each, options.seed)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
