"""Asking somebody who is signed in for the password once more, before what a stolen session must not do alone."""

import uuid

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.errors import InvalidCredentials
from accounts.lockout import throttling
from accounts.passwords import hashing as passwords
from accounts.users import step_up, units
from accounts.users.units import Credentials
from ironauth.infrastructure.core.errors import NotAuthenticated, Overloaded
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import claims as hash_claims


async def active_user(user_id: uuid.UUID) -> Credentials:
    """Return the credentials of an active user; raises ``NotAuthenticated`` for any other."""
    found = await database().read(units.credentials_of_id, user_id)
    if found is None or not found.is_active:
        raise NotAuthenticated
    return found


async def recently_present(user_id: uuid.UUID, authenticated_at: int) -> Credentials:
    """Return the credentials of an active user who need not step up; the password is asked for as well."""
    found = await active_user(user_id)
    if found.methods:
        step_up.require_recent_at(authenticated_at)
    return found


async def require_password(found: Credentials, password: str, event: Event, session_id: uuid.UUID | None) -> None:
    """Raise ``InvalidCredentials`` unless ``password`` is right, leaving ``event`` as failed in the trail.

    Raises ``Throttled`` after too many that were not.
    """
    attempt = await throttling.admit_confirmation(user_id=found.id)
    try:
        with hash_claims.named(found.id.hex):  # of a link's reader, too, who is not signed in
            verdict = await passwords.verify_password(password, found.encoded)
    except Overloaded:
        await throttling.give_back(attempt)
        raise
    if not verdict.ok:
        await audit.record_later(
            event, outcome=Outcome.FAILURE, actor_id=found.id, user_id=found.id, session_id=session_id
        )
        raise InvalidCredentials("The current password is wrong: check it and try again.")
    await throttling.succeeded(attempt)
