"""What people do with their own account; async, keyword-only, never sees a request."""

import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.hashers import is_password_usable

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.recording import Event, Outcome
from accounts.errors import EmailNotVerified, InvalidCredentials, PasswordChangeRequired
from accounts.lockout import throttling
from accounts.lockout.rate_limits import Refused
from accounts.lockout.throttling import Attempt, PendingAttempt
from accounts.passwords import hashing as passwords
from accounts.passwords import old_system
from accounts.passwords.breached import require_unbreached
from accounts.passwords.policy import require_policy
from accounts.users import queries as user_queries
from accounts.users import reauthentication, units
from accounts.users.outputs import Account, UserOut
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.queries import Credentials, account_snapshot
from accounts.users.reauthentication import reauthenticate
from ironauth.infrastructure.core.constant_time import REFUSAL_STEP_S, wait_for_step
from ironauth.infrastructure.core.errors import NotAuthenticated, Overloaded, Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger

__all__ = [
    "Authenticated",
    "account_snapshot",
    "admit",
    "authenticate",
    "change_password",
    "end_all_sessions",
    "get_profile",
    "require_admissible",
    "update_profile",
]


class Authenticated(NamedTuple):
    """The person whose password was right; the account can change while a password is hashed.

    Attributes:
        id: The user's id.
        session_epoch: The epoch that the password was right under.
        methods: The second factors, one of which has still to be proved.
        attempt: What ``throttling.reset_counters`` resets in the transaction that lets the person in; None where
            nothing is to be reset.
    """

    id: uuid.UUID
    session_epoch: int
    methods: tuple[str, ...] = ()
    attempt: Attempt | None = None


async def authenticate(*, email: str, password: str, context: ClientContext = throttling.UNKNOWN) -> Authenticated:
    """Return whose address and password these are, if the account is active.

    ``attempt`` of the result still counts as a failure: the transaction that lets the person in resets it. Where a
    second factor has still to be proved (``methods``), the try is given back, and earlier failures stay counted: half
    of what is needed resets nothing.

    A refusal has many reasons: the address is unknown or still to be proved, the password is wrong or too long, the
    account is inactive or has no usable password. All of them cost one query and one Argon2 run, count as a failure,
    and raise the same error. Its audit event is one insert for all of them, and the answer does not wait for it; the
    answer leaves at an even time.

    Where nobody here has the address and an old system is asked (``passwords.old_system``), the person may move here in
    this very sign-in. While that is on, every refusal leaves after a whole number of ``old_system.step_s`` seconds.

    After a right password an outdated hash is upgraded, which never fails the sign-in. Count and account are read in
    one unit of work: four queries, three with Redis.

    Args:
        email: The address that was typed, not yet judged.
        password: What was typed.
        context: Where the try comes from.

    Raises:
        InvalidCredentials: (401) see above.
        PasswordChangeRequired: (403) the password is right, and staff have asked for another one.
        Throttled: (429) before any of that.
        Overloaded: (503) the hash pool is full.
    """
    hash_pool().require_capacity()
    began = time.monotonic_ns()
    attempt, found = await admit(email, context)
    moves = settings.IRONAUTH_LAZY_MIGRATION != "off" and old_system.is_asked()
    why_not: Reason | None = None
    try:
        verdict = await passwords.verify_password(password, found.encoded if found else None)
        if moves and found is None:
            there = await old_system.find(email=email, password=password, began_ns=began)
            if isinstance(there, Reason):
                why_not = there
            else:
                found = await database().write_autocommit(user_queries.credentials_of_id, there)
                verdict = await passwords.verify_password(password, found.encoded if found else None)
    except (Overloaded, Unavailable):  # nothing was judged; not so if a caller hangs up: that try counts
        await throttling.give_back(attempt)
        raise
    if found is None or not verdict.ok or not found.is_active or emails.is_proof_awaited(found.email_verified_at):
        user_id = found.id if found else None
        get_logger().info("sign_in_refused", user_id=str(user_id) if user_id else None)
        details = {"reason": why_not or refusal_reason(found, right=verdict.ok)}
        await audit.record_later(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=user_id, details=details)
        await wait_for_step(began, old_system.step_s() if moves else REFUSAL_STEP_S)
        raise InvalidCredentials(
            InvalidCredentials.detail_where_proof_is_required if emails.is_proof_required() else None
        )
    if found.methods:
        await throttling.give_back(attempt)
        attempt = None
    await throttling.release_windows(attempt)
    if verdict.needs_rehash:
        await _upgrade(found, password)
    try:
        await require_admissible(found)
    except PasswordChangeRequired:
        if attempt is not None:
            await database().write(throttling.reset_counters, attempt, new_device=context.new_device)
        raise
    if verdict.breached and found.password_flagged_at is None:
        await _flag(found)
    return Authenticated(found.id, found.session_epoch, found.methods, attempt)


def refusal_reason(found: Credentials | None, *, right: bool) -> Reason:
    """Return why a password, or with ``right`` any proof, did not sign in: for staff; clients are told one reason only.

    Args:
        found: The account; None when the address has none.
        right: Whether the proof was right.
    """
    if found is None:
        return Reason.NO_ACCOUNT
    if not found.is_active:
        return Reason.DEACTIVATED
    if right:
        return Reason.ADDRESS_NOT_CONFIRMED
    return Reason.WRONG_PASSWORD if is_password_usable(found.encoded) else Reason.NO_PASSWORD


async def admit(email: str, context: ClientContext) -> tuple[Attempt | None, Credentials | None]:
    """Return the try to sign in, counted, and the account behind the address.

    Args:
        email: The address that was typed, not yet judged.
        context: Where the try comes from.

    Raises:
        Throttled: (429) the account or the client has failed too often.
    """
    key = emails.lookup_key(email)
    pending = await throttling.begin_sign_in(email=email, context=context)
    if pending is None:
        # On SQLite this is the connection that will write the session, with all pages at hand; a reader's, which drops
        # its own whenever somebody writes, took 0.15 ms more of CPU.
        return None, await database().write_autocommit(user_queries.credentials_of_email, key)
    attempt, found = await database().write(_admit_and_find, pending, key)
    if isinstance(attempt, Refused):
        await throttling.refuse_sign_in(attempt, email=email)
    return attempt, found


def _admit_and_find(pending: PendingAttempt, key: str) -> tuple[Attempt | Refused, Credentials | None]:
    """Do both in one unit of work, for each is a hop to the database's thread."""
    attempt = throttling.admit(pending)
    return attempt, None if isinstance(attempt, Refused) else user_queries.credentials_of_email(key)


async def require_admissible(found: Credentials) -> None:
    """Refuse somebody who has proved who they are and may not sign in yet, and record that; nothing is queried.

    Raises:
        EmailNotVerified: Addresses must be verified and this one is not, which only a passkey gets to hear.
        PasswordChangeRequired: Staff have asked for another password.
    """
    refusal = _inadmissible(found)
    if refusal is None:
        return
    get_logger().info("sign_in_not_admissible", user_id=str(found.id), reason=refusal.code)
    await audit.record_later(
        Event.SIGN_IN,
        outcome=Outcome.REFUSED,
        actor_id=found.id,
        user_id=found.id,
        details={"reason": refusal.code},
    )
    raise refusal


async def get_profile(*, user_id: uuid.UUID) -> UserOut:
    """Return the user's present state.

    Raises:
        NotAuthenticated: The account is gone.
    """
    account = await database().read(account_snapshot, user_id)
    if account is None:
        raise NotAuthenticated
    return account.user


async def update_profile(
    *, user_id: uuid.UUID, values: Mapping[str, str], session_id: uuid.UUID | None = None
) -> UserOut:
    """Set what a person says of themselves: names, what applications call them, their time zone.

    Args:
        user_id: Whose it is.
        values: The new values, validated, by the names of columns of ``profile.Profile``; at least one.
        session_id: The session it is done in, for the audit trail; here and below.

    Raises:
        NotAuthenticated: The account is gone or inactive.
    """
    return await database().write(units.set_profile, user_id=user_id, values=values, session_id=session_id)


async def get_language(*, user_id: uuid.UUID) -> str:
    """Return the language the person has chosen, "" for none.

    Raises:
        NotAuthenticated: The account is gone or inactive.
    """
    return await database().read(user_queries.language, user_id)


async def set_language(*, user_id: uuid.UUID, language: str, session_id: uuid.UUID | None = None) -> None:
    """Set the language of the person's pages and messages.

    Args:
        user_id: Whose it is.
        language: A code of ``settings.LANGUAGES``, or "" for the browser's; validated by the caller.
        session_id: The session it is done in.

    Raises:
        NotAuthenticated: The account is gone or inactive.
    """
    await database().write(units.set_language, user_id=user_id, language=language, session_id=session_id)


async def change_password(
    *,
    user_id: uuid.UUID,
    shown: Evidence,
    new_password: str,
    session_id: uuid.UUID | None = None,
    authenticated_at: int = 0,
) -> Account:
    """Replace the password; every session of the user has ended when this returns, the caller's too.

    Args:
        user_id: Whose it is.
        shown: What proves again who the caller is.
        new_password: As it was typed.
        session_id: The session it is done in.
        authenticated_at: When the caller last proved who they are, unix seconds; here and below. People with a second
            factor need that to be recent.

    Raises:
        ValidationFailed: (``new_password``) By the policy or the list of breached ones.
        StepUpRequired: The last proof is too old.
        PasswordChanged: Another change was faster.
        Overloaded: The hash pool is full.
        DomainError: What ``reauthenticate`` raises.
    """
    found = await reauthentication.recently_present(user_id, authenticated_at)
    require_policy(new_password, email=found.email, name=found.name, field="new_password")
    await reauthenticate(found, shown, ProofRequest(user_id, Event.PASSWORD_CHANGED, session_id=session_id))
    await require_unbreached(new_password, field="new_password")
    encoded = await passwords.hash_password(new_password)
    account = await database().write(
        units.set_password, user_id=user_id, old=found.encoded, new=encoded, session_id=session_id
    )
    get_logger().info("password_changed", user_id=str(user_id))
    return account


async def end_all_sessions(*, user_id: uuid.UUID, session_id: uuid.UUID | None = None) -> None:
    """End every session of the user everywhere.

    Args:
        user_id: The person who is signed in.
        session_id: The session it is done in, for the trail; it ends as well.

    Raises:
        NotAuthenticated: The account is gone or inactive.
    """
    await database().write(units.end_all_sessions, user_id=user_id, session_id=session_id)
    get_logger().info("all_sessions_ended", user_id=str(user_id))


async def _flag(found: Credentials) -> None:
    """Note that the password is in the list of breached ones, and have its owner told; never fails the sign-in."""
    try:
        await database().write(units.flag_password, found)
    except Unavailable:  # the next sign-in does it
        get_logger().warning("password_not_flagged", user_id=str(found.id))


async def _upgrade(found: Credentials, password: str) -> None:
    """Store the password under today's costs and pepper; whatever goes wrong is logged and has no effect."""
    try:
        encoded = await passwords.hash_password(password)
        await database().write(units.upgrade_hash, user_id=found.id, old=found.encoded, new=encoded)
    except Exception:  # noqa: BLE001 - the password was right: the person must get in
        get_logger().exception("password_upgrade_failed", user_id=str(found.id))
    else:
        get_logger().info("password_hash_upgraded", user_id=str(found.id))


def _inadmissible(found: Credentials) -> EmailNotVerified | PasswordChangeRequired | None:
    """Return why somebody who has proved who they are may not sign in yet, to the API or to the admin."""
    if emails.is_proof_awaited(found.email_verified_at):
        return EmailNotVerified()
    return PasswordChangeRequired() if found.must_change_password else None
