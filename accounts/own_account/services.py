"""Signing up, and deleting one's own account; async, keyword-only, never sees a request."""

import uuid
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError

from accounts import email_address as emails
from accounts.audit.recording import Event
from accounts.email import codes
from accounts.errors import EmailTaken, SignUpClosed, UserProtected
from accounts.lockout import rate_limits
from accounts.own_account import units
from accounts.passwords import hashing as passwords
from accounts.passwords.breached import require_unbreached
from accounts.passwords.policy import require_policy
from accounts.privacy import services as deletions
from accounts.privacy import terms
from accounts.users import queries as user_queries
from accounts.users import reauthentication
from accounts.users.outputs import UserOut
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.reauthentication import reauthenticate
from ironauth.infrastructure.core.constant_time import answered_evenly
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger


class SignedUp(NamedTuple):
    """What came of a sign-up. ``user``: None where the address has to be verified first, whether or not it was taken.

    ``code_id``: the token whose code the page asks for, where it does. ``sign_up``: what it asks for another one with.
    """

    user: UserOut | None
    code_id: uuid.UUID | None = None
    sign_up: str = ""


async def sign_up(
    *,
    email: str,
    password: str,
    name: str = "",
    terms_version: str = "",
    address: str = "",
    with_code: bool = False,
    page: str = "",
    page_if_taken: str = "",
) -> SignedUp:
    """Create an account. The address has been validated by the caller.

    A taken address is found before the hash is paid for, and once more by the unique index. Where addresses must be
    verified, nobody is told: the answer has no user, and the address's owner gets a message. Account and audit event
    are one transaction, 0.3 ms (SQLite) or 0.5 ms (PostgreSQL, 4 round trips for 1) more than the account alone. A
    password known from a breach counts for the throttle: a service may have been asked about it.

    Args:
        email: The address.
        password: As it was typed.
        name: The display name.
        terms_version: Which version of the terms the person has accepted.
        address: The client's; "" is unknown, and not counted.
        with_code: Whether the message also has a code of six digits, for the page that asks for it.
        page: The route of the page that the link of the message opens; "" for the one that goes on nowhere.
        page_if_taken: The same for the message that tells the owner of the address; "" for their own account's.

    Raises:
        SignUpClosed: Nobody may make an account here without an invitation, or at all.
        EmailTaken: Another account has the address, and people may be told.
        ValidationFailed: The policy refuses the password, or a breach has it; or the terms are not accepted.
        Overloaded: The hash pool is full.
        Throttled: Too many came from the client, or were mailed to.
    """
    if settings.IRONAUTH_SIGN_UP != "open":
        raise SignUpClosed
    terms.require_accepted(terms_version)
    hash_pool().require_capacity()
    require_policy(password, email=email, name=name, field="password")
    await rate_limits.admit(rate_limits.SIGN_UP, address=address)
    await require_unbreached(password, field="password")
    if emails.is_proof_required():
        leads = {"page": page, "page_if_taken": page_if_taken}
        return await _sign_up_untold(email=email, password=password, name=name, with_code=with_code, **leads)
    if await database().read(user_queries.email_is_taken, emails.fold(email)):
        raise EmailTaken
    encoded = await passwords.hash_password(password)
    try:
        create = units.create_unverified if settings.IRONAUTH_EMAIL_VERIFICATION == "optional" else units.create
        user = await database().write(create, email=email, encoded=encoded, name=name)
    except IntegrityError as error:
        raise EmailTaken from error
    get_logger().info("user_signed_up", user_id=str(user.id))
    return SignedUp(user)


async def _sign_up_untold(*, email: str, password: str, name: str, with_code: bool, **leads: str) -> SignedUp:
    """Create an account, or have the owner of the address told that there is one, in the same time."""
    await rate_limits.admit_mail(kind="sign-up", email=email)
    encoded = await passwords.hash_password(password)
    async with answered_evenly():
        done = await database().write(
            units.create_quietly, email=email, encoded=encoded, name=name, with_code=with_code, **leads
        )
    user_id = str(done.user_id) if done.user_id else None
    get_logger().info("user_signed_up" if user_id else "sign_up_repeated", user_id=user_id)
    if not with_code:
        return SignedUp(None)
    return SignedUp(None, done.token_id, codes.sealed_sign_up(email=email, user_id=done.made_id, epoch=done.epoch))


async def delete_account(
    *, user_id: uuid.UUID, shown: Evidence, session_id: uuid.UUID | None = None, authenticated_at: int = 0
) -> None:
    """End the account and every session of it; IRONAUTH_DELETION_GRACE_DAYS later nothing is left of it.

    Args:
        user_id: Whose account it is.
        shown: What they prove with that it is them.
        session_id: The session in which they ask; None outside one.
        authenticated_at: When they have proved it last, unix seconds; 0 for never.

    Raises:
        LastSuperuser: Nobody else could run the system.
        PasswordChanged: The password was changed meanwhile.
        Throttled: After too many messages.
        UserProtected: With 0 days: rows of another application forbid it.
        DomainError: What ``reauthenticate`` raises.
    """
    found = await reauthentication.recently_present(user_id, authenticated_at)
    await reauthenticate(found, shown, ProofRequest(user_id, Event.ACCOUNT_DELETED, session_id=session_id))
    await rate_limits.admit_deletion(email=found.email, user_id=user_id)
    try:
        await deletions.request_deletion(user_id=user_id, old=found.encoded, session_id=session_id)
    except IntegrityError as error:  # Django's ProtectedError and RestrictedError are such
        raise UserProtected from error
    get_logger().info("account_deleted", user_id=str(user_id), grace_days=settings.IRONAUTH_DELETION_GRACE_DAYS)
