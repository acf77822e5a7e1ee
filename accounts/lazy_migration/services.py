"""Somebody without an account here signs in: the old system is asked, and they move in; async, keyword-only."""

import uuid

from django.conf import settings
from django.db import IntegrityError

from accounts import email_address as emails
from accounts.audit.events import Reason
from accounts.lazy_migration import asking, units
from accounts.lazy_migration.asking import NotAskedError
from accounts.lazy_migration.units import HasLeftError
from accounts.passwords import hashing as passwords
from accounts.passwords.formats import too_long
from accounts.transfer import queries
from accounts.transfer.records import Note, Person
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


async def find(*, email: str, password: str, began_ns: int) -> uuid.UUID | Reason:
    """Return the id of the account of somebody who has moved in just now; why not, where nobody has.

    Nothing is sent about an address that cannot be an account's, that an account here had, or with a password that no
    account may have.

    Args:
        email: The address that was typed; no account here has it.
        password: What was typed.
        began_ns: When the sign-in began, nanoseconds of ``time.monotonic_ns``: the time limit counts from there.

    Raises:
        Overloaded: (503) the password is right there, and the hash pool is full.
        Unavailable: (503) the database has no time.
    """
    key = emails.lookup_key(email)
    if not key or not password or too_long(password):
        return Reason.NO_ACCOUNT
    if await database().read(queries.has_left, key):
        return Reason.WAS_HERE
    until = began_ns / 1e9 + settings.IRONAUTH_LAZY_MIGRATION_TIMEOUT_S
    try:
        person = await asking.ask(email=emails.normalise(email), password=password, until=until)
    except NotAskedError:
        return Reason.OLD_SYSTEM_UNAVAILABLE
    if person is None or not person.is_active or emails.fold(person.email) != key:
        return Reason.OLD_SYSTEM_REFUSED
    return await _move_in(person, password)


async def _move_in(person: Person, password: str) -> uuid.UUID | Reason:
    """Store somebody whose password is right in the old system."""
    encoded = await passwords.hash_password(password)
    source = asking.kind().source
    try:
        found = await database().write(units.move_in, person=person, encoded=encoded, source=source)
    except IntegrityError:
        return Reason.HERE_BY_ANOTHER_ADDRESS
    except HasLeftError:
        return Reason.WAS_HERE
    if not isinstance(found, Reason):
        get_logger().info("user_moved_in", user_id=str(found), source=source)
        if Note.TOTP_SECRET in person.notes:
            get_logger().warning("app_left_behind", user_id=str(found), source=source, reason=Note.TOTP_SECRET.value)
    return found
