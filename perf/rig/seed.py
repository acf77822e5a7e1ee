"""Fill the benchmark's own database with people and sessions: ``python -m perf.rig.seed --users 4000``.

It runs in the environment of the server whose database it is. ``--sessions 500`` opens one session for each of the
first 500 people and prints what opens them, as JSON: hashing a password for each would take a minute.
"""

import argparse
import os
import sys

import django
import msgspec

#: Of an ordinary browser: it is stored with each session and event, and counts where their bytes are measured.
USER_AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
PASSWORD = "Orbital-marmalade-9-teapots"  # noqa: S105 - of people who exist only in the benchmark's database


class SeededSession(msgspec.Struct, frozen=True):
    """A session and what a client needs to use it."""

    user_id: str
    session_id: str
    refresh_token: str


def email_of(serial: int) -> str:
    """Return the address of the seeded person with this number, from 0."""
    return f"person{serial}@bench.example"


def main() -> int:
    """Insert people who share one password hash (checking it costs as much as one of their own), or open sessions."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--users", type=int, default=0, help="people to insert, numbered from 0")
    parser.add_argument("--superuser", action="store_true", help="give the first person every right")
    parser.add_argument("--sessions", type=int, default=0, help="open one for each of the first people, who exist")
    parser.add_argument("--events", type=int, default=0, help="events of the audit trail to insert: sign-ins")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    if options.users:
        _insert_people(options.users)
    if options.superuser:
        _raise_first_person()
    if options.events:
        _insert_events(options.events)
    if options.sessions:
        sys.stdout.write(f"{msgspec.json.encode(_open_sessions(options.sessions)).decode()}\n")
    return 0


def _insert_people(count: int) -> None:
    # Django's models can only be imported after django.setup(), here and below.
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs django.setup()
    from django.contrib.auth.hashers import make_password  # noqa: PLC0415 - needs django.setup()

    from accounts.email_address import fold  # noqa: PLC0415 - needs django.setup()

    user_model = get_user_model()
    encoded = make_password(PASSWORD)
    addresses = (email_of(serial) for serial in range(count))
    people = [user_model(email=address, email_key=fold(address), password=encoded) for address in addresses]
    user_model.objects.bulk_create(people, batch_size=500)


def _raise_first_person() -> None:
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs django.setup()

    get_user_model().objects.filter(email=email_of(0)).update(is_staff=True, is_superuser=True)


def _insert_events(count: int) -> None:
    """Insert events as sign-ins leave them, each of another person and session."""
    from accounts.audit.models import AuditEvent  # noqa: PLC0415 - needs django.setup()
    from ironauth.infrastructure.core import clock  # noqa: PLC0415 - needs django.setup()
    from ironauth.infrastructure.core.ids import new_id  # noqa: PLC0415 - needs django.setup()

    def event() -> AuditEvent:
        person = new_id()
        return AuditEvent(
            id=new_id(), at=clock.now(), event="sign_in", outcome="success", actor_id=person, user_id=person,
            session_id=new_id(), address="203.0.113.7", user_agent=USER_AGENT, request_id=str(new_id()),
            details={"method": "password"},
        )  # fmt: skip

    AuditEvent.objects.bulk_create([event() for _ in range(count)], batch_size=500)


def _open_sessions(count: int) -> list[SeededSession]:
    """Open sessions as a sign-in does after the password was right, in one transaction."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs django.setup()
    from django.db import transaction  # noqa: PLC0415 - needs django.setup()

    from accounts.users.services import account_snapshot  # noqa: PLC0415 - needs django.setup()
    from ironauth.infrastructure.http.client_context import ClientContext  # noqa: PLC0415 - needs django.setup()
    from tokens.sessions.units import store_first_party  # noqa: PLC0415 - needs django.setup()

    wanted = [email_of(serial) for serial in range(count)]
    ids = dict(get_user_model().objects.filter(email__in=wanted).values_list("email", "id"))
    context = ClientContext(address="127.0.0.1", user_agent=USER_AGENT)
    opened = []
    with transaction.atomic():
        for address in wanted:
            account = account_snapshot(ids[address])
            if account is None:
                raise LookupError(f"{address} is not in the database: seed people first")
            one = store_first_party(account=account, context=context)
            opened.append(SeededSession(str(account.id), str(one.session_id), one.refresh_token))
    return opened


if __name__ == "__main__":
    sys.exit(main())
